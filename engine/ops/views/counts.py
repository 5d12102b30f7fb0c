"""Counts: what there is now, what came, ended and was answered in a period; and their series for charts."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

from engine.journal.entry import BY_RULE, UNFINISHED
from engine.journal.read.reading import Reader
from engine.journal.read.views import Count as Counted
from engine.journal.state.counters import floor_of
from engine.journal.state.rollup import Rolled
from engine.ops.views.answer import Answer, Count, Time, known_as, moment_text, time_of

Series = tuple[Count, ...]
Values = tuple[int | None, ...]


class Span(NamedTuple):
    """How far back a chart goes, and how wide each of its points is, in seconds."""

    length: timedelta
    width: int


SPANS: Final = {
    "1h": Span(timedelta(hours=1), 60),
    "24h": Span(timedelta(hours=24), 600),
    "7d": Span(timedelta(days=7), 3_600),
    "30d": Span(timedelta(days=30), 21_600),
}
QUANTILES: Final = {"p50": 0.5, "p99": 0.99}
COUNTED: Final = ("received", "refused", "delivered", "held")


class Charts(Answer, facts=True):
    """Series of points of `seconds` each; `at` is where each begins, and the last one is not over yet.

    `received` and `refused` by channel, `delivered` by destination, `held` by where it was held. `depth`: the most that
    waited for a destination. `ack_ms` (of all channels) and `delivery_ms` (from receipt to delivery, by destination,
    without replays): `p50` and `p99`, estimated within narrow ranges. Null: nothing is known of that point.
    """

    span: str
    seconds: Count
    at: tuple[Time, ...]
    received: dict[str, Series]
    refused: dict[str, Series]
    delivered: dict[str, Series]
    held: dict[str, Series]
    depth: dict[str, Values]
    ack_ms: dict[str, Values]
    delivery_ms: dict[str, dict[str, Values]]


def charted(folder: Path, span: str, now: datetime) -> Charts:
    """Return the series of one of SPANS until now."""
    length, width = SPANS[span]
    points = int(length.total_seconds()) // width
    last = int(now.timestamp()) // width * width
    seconds = [last - width * back for back in reversed(range(points))]
    begin = datetime.fromtimestamp(seconds[0], UTC)
    with Reader(folder) as reader:
        rows = reader.rolled(width, begin, now + timedelta(seconds=width))
    place = {second * 1_000_000: number for number, second in enumerate(seconds)}
    counts: dict[str, dict[str, list[int]]] = {name: defaultdict(lambda: [0] * points) for name in COUNTED}
    depth: dict[str, list[int | None]] = defaultdict(lambda: [None] * points)
    waits: dict[str, list[Counter[int]]] = defaultdict(lambda: [Counter() for _ in range(points)])
    for row in rows:
        if row.at not in place:
            continue
        at = place[row.at]
        if row.series in counts:
            counts[row.series][row.who][at] += row.times
        elif row.series == "depth":
            depth[row.who][at] = row.times
        else:
            waits[_histogram(row)][at][row.bound] += row.times
    ack = waits.pop("", [Counter()] * points)
    return Charts(
        span=span,
        seconds=width,
        at=tuple(moment_text(datetime.fromtimestamp(second, UTC)) for second in seconds),
        depth=depth,
        ack_ms=_quantiles(ack),
        delivery_ms={name: _quantiles(histograms) for name, histograms in waits.items()},
        **counts,
    )


def _histogram(row: Rolled) -> str:
    """Return the destination whose waits a row counts, empty for those of senders, which are added up."""
    return row.who if row.series == "delivery" else ""


def _quantiles(histograms: Iterable[Counter[int]]) -> dict[str, Values]:
    found = list(histograms)
    return {name: tuple(quantile(one, share) for one in found) for name, share in QUANTILES.items()}


def quantile(histogram: Counter[int], share: float) -> int | None:
    """Return within how many milliseconds a share of what was counted lies; None where nothing was.

    Within the range of a bound what was counted is taken to lie evenly, as Prometheus does.
    """
    left = share * histogram.total()
    for bound in sorted(histogram):
        if left <= histogram[bound]:
            floor = floor_of(bound)
            return math.ceil(floor + (bound - floor) * left / histogram[bound])
        left -= histogram[bound]
    return max(histogram, default=None)


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

    `ack_ms` are p50 and p99 by channel, estimated within narrow ranges; a bucket without acknowledgements has null.
    """

    since: Time
    until: Time
    seconds: Count
    at: tuple[Time, ...]
    received: dict[str, tuple[Count, ...]]
    refused: dict[str, tuple[Count, ...]]
    settled: dict[str, dict[str, tuple[Count, ...]]]
    ack_ms: dict[str, dict[str, tuple[int | None, ...]]]


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


def _waits(counts: list[Counted], at: list[datetime]) -> dict[str, dict[str, list[int | None]]]:
    places = {moment: place for place, moment in enumerate(at)}
    found: dict[str, dict[str, list[int | None]]] = defaultdict(
        lambda: {"p50": [None] * len(at), "p99": [None] * len(at)}
    )
    for (channel, moment), group in groupby(counts, key=lambda one: (one.who, one.at)):
        histogram = Counter({int(one.kind): one.times for one in group})
        if (place := places.get(moment)) is not None:
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                found[channel][name][place] = quantile(histogram, share)
    return found
