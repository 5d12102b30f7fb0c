"""Counts: what there is now, and what came, ended and was answered in a period."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, TypeVar

from engine.journal.entry import BY_RULE, UNFINISHED
from engine.journal.read.reading import Reader
from engine.journal.read.views import Count as Counted
from engine.ops.views.answer import Answer, Count, Time, known_as, moment_text, time_of
from engine.ops.views.charting import QUANTILES, Measure, quantile

K = TypeVar("K")
DAY: Final = timedelta(days=1)
# Widths of buckets, in seconds: whole minutes below a day, whole days from there on.
WIDTHS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
ENDS: Final = {"received": "retried"}
ARRIVALS: Final = {"rejected": "refused", "filtered": "filtered"}


class JournalStatus(Answer, facts=True):
    """The number of entries and the newest; those without deliveries by state, unfinished deliveries by destination."""

    entries: Count
    last: Annotated[Count, known_as("last", "last_seq")]
    at_door: dict[str, Count]
    deliveries: dict[str, dict[str, Count]]
    oldest_unfinished_at: Time | None


class Queue(Answer, facts=True):
    """What waits for a destination, and how long the oldest has waited."""

    unfinished: Count
    held: Count
    oldest_at: Time | None
    age_seconds: int | None


class Counts(JournalStatus, facts=True):
    """Counts of now, and of what was received and settled in a period; one of over two days counts whole days.

    `received` counts messages by channel as received, refused and filtered, duplicates not; `settled` ends of
    deliveries by destination; `rules` how often a filter of each name held, by channel, up to 20,000.
    """

    since: Time
    until: Time
    received: dict[str, dict[str, Count]]
    settled: dict[str, dict[str, Count]]
    rules: dict[str, dict[str, Count]]
    queues: dict[str, Queue]


class Throughput(Answer, facts=True):
    """Series for a chart: `at` is where each bucket of `seconds` begins.

    `ack_ms` are p50 and p99 by channel, within 4 % of what was measured; a bucket of which nothing is known has null.
    """

    since: Time
    until: Time
    seconds: Count
    at: tuple[Time, ...]
    received: dict[str, tuple[Count, ...]]
    refused: dict[str, tuple[Count, ...]]
    settled: dict[str, dict[str, tuple[Count, ...]]]
    ack_ms: dict[str, dict[str, tuple[Measure, ...]]]


def status(folder: Path) -> JournalStatus:
    """Return how many entries are in which state now."""
    with Reader(folder) as reader:
        return JournalStatus.of(reader.stats())


def counted(folder: Path, since: datetime, until: datetime, now: datetime) -> Counts:
    """Return how many entries are in which state now, and what came and ended in a time."""
    with Reader(folder) as reader:
        stats = reader.stats()
        traffic = reader.traffic(since, until, 60 if until - since <= 2 * DAY else 86400)
        rules = by_rule(reader, since, until)
    received: dict[str, dict[str, int]] = defaultdict(lambda: {"received": 0, "refused": 0, "filtered": 0})
    for one in traffic.arrived:
        received[one.who]["received"] += one.times
        if word := ARRIVALS.get(one.kind):
            received[one.who][word] += one.times
    settled: dict[str, dict[str, int]] = defaultdict(dict)
    for one in traffic.ended:
        word = ENDS.get(one.kind, one.kind)
        settled[one.who][word] = settled[one.who].get(word, 0) + one.times
    queues = {
        name: Queue(
            unfinished=sum(count for state, count in queue.states.items() if state in UNFINISHED),
            held=queue.states.get("held", 0),
            oldest_at=time_of(queue.oldest_at),
            age_seconds=round((now - queue.oldest_at).total_seconds()) if queue.oldest_at else None,
        )
        for name, queue in stats.queues.items()
    }
    return Counts.of(stats, queues=queues, since=since, until=until, received=received, settled=settled, rules=rules)


def by_rule(reader: Reader, since: datetime | None, until: datetime | None) -> dict[str, dict[str, int]]:
    """Return how often a filter of each name held in a time, by channel; of each only the newest 20,000 entries."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for one in reader.noted(BY_RULE, since, until):
        found[one.channel][one.note.partition(" ")[2]] = one.entries
    return found


def passed(folder: Path, since: datetime, until: datetime, points: int, channel: str = "") -> Throughput:
    """Return what came, ended and was answered in a time, as series of at most `points` points."""
    width = _width(since, until, points)
    begin = int(since.timestamp()) // width * width
    at = [datetime.fromtimestamp(second, since.tzinfo) for second in range(begin, int(until.timestamp()) + 1, width)]
    with Reader(folder) as reader:
        traffic = reader.traffic(since, until, width)
    arrived = [one for one in traffic.arrived if not channel or one.who == channel]
    answered = [one for one in traffic.answered if not channel or one.who == channel]
    ended = _series(traffic.ended, at, lambda one: (one.who, ENDS.get(one.kind, one.kind)))
    settled: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for (destination, state), series in ended.items():
        settled[destination][state] = series
    refused = [one for one in arrived if one.kind == "rejected"]
    return Throughput(
        since=moment_text(since),
        until=moment_text(until),
        seconds=width,
        at=tuple(map(moment_text, at)),
        received=_series(arrived, at, lambda one: one.who),
        refused=_series(refused, at, lambda one: one.who),
        settled=settled,
        ack_ms=_waits(answered, at),
    )


def _width(since: datetime, until: datetime, points: int) -> int:
    """Return the narrowest width of a bucket with which a time has at most `points` points."""
    least = (until - since).total_seconds() / points
    days = -(-int(least) // WIDTHS[-1])
    return next((width for width in WIDTHS if width >= least), days * WIDTHS[-1])


def _series(counts: Iterable[Counted], at: list[datetime], key: Callable[[Counted], K]) -> dict[K, list[int]]:
    places = {moment: place for place, moment in enumerate(at)}
    found: dict[K, list[int]] = defaultdict(lambda: [0] * len(at))
    for count in counts:
        if (place := places.get(count.at)) is not None:
            found[key(count)][place] += count.times
    return found


def _waits(counts: list[Counted], at: list[datetime]) -> dict[str, dict[str, list[Measure]]]:
    places = {moment: place for place, moment in enumerate(at)}
    found: dict[str, list[Counter[int]]] = defaultdict(lambda: [Counter() for _ in at])
    for one in counts:
        if (place := places.get(one.at)) is not None:
            found[one.who][place][int(one.kind)] += one.times
    return {
        who: {name: [quantile(one, share) for one in histograms] for name, share in QUANTILES.items()}
        for who, histograms in found.items()
    }
