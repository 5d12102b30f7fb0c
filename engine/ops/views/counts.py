"""How much there is and how it goes: what stands where now, and what came, ended and was answered in a time.

`messages.counts` (since, until; the last 24 hours) returns

    entries, last         how many entries there are, and the newest one's number
    at_door               {state: count}: entries without deliveries
    deliveries            {destination: {state: count}}: those not delivered, as they stand now
    oldest_unfinished_at  when the oldest unfinished entry was received, null where all is finished
    queues                {destination: {unfinished, held, oldest_at, age_seconds}}: what waits, with the oldest of it
    since, until          the time of what follows; of more than two days, whole days
    received              {channel: {received, refused, filtered}}: messages of that time (duplicates not counted)
    settled               {destination: {delivered, filtered, held, rejected, retried}}: ends of that time

`messages.throughput` (since, until, channel, points) returns the same as series for a chart: `{since, until, seconds,
at: [time], received: {channel: [n]}, refused: {channel: [n]}, settled: {destination: {state: [n]}}, ack_ms: {channel:
{p50: [ms], p99: [ms]}}}`; `seconds` is a bucket's width, a whole number of minutes, chosen for at most `points` (180)
buckets; a bucket without acknowledgements has null.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from engine.journal.entry import UNFINISHED
from engine.journal.read.reading import Reader
from engine.journal.read.views import Count, Stats
from engine.ops.request import now, number_in, period_in, text_in
from engine.ops.views.view import time_of

DAY: Final = timedelta(days=1)
MOST_POINTS: Final = 1000
POINTS: Final = 180
# Widths of buckets, in seconds: whole minutes below a day, whole days from there on.
WIDTHS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
ENDS: Final = {"received": "retried"}
DOORS: Final = {"rejected": "refused", "filtered": "filtered"}


def stood(folder: Path) -> dict[str, Any]:
    """Return what stands where now."""
    with Reader(folder) as reader:
        return _stats(reader.stats())


def counted(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what stands where now, and what came and ended in a time."""
    since, until = period_in(given, DAY)
    with Reader(folder) as reader:
        stats = reader.stats()
        traffic = reader.traffic(since, until, 60 if until - since <= 2 * DAY else 86400)
    received: dict[str, dict[str, int]] = defaultdict(lambda: {"received": 0, "refused": 0, "filtered": 0})
    for one in traffic.arrived:
        received[one.who]["received"] += one.times
        if word := DOORS.get(one.kind):
            received[one.who][word] += one.times
    settled: dict[str, dict[str, int]] = defaultdict(dict)
    for one in traffic.ended:
        word = ENDS.get(one.kind, one.kind)
        settled[one.who][word] = settled[one.who].get(word, 0) + one.times
    queues = {
        name: {
            "unfinished": sum(count for state, count in queue.states.items() if state in UNFINISHED),
            "held": queue.states.get("held", 0),
            "oldest_at": time_of(queue.oldest_at),
            "age_seconds": round((now() - queue.oldest_at).total_seconds()) if queue.oldest_at else None,
        }
        for name, queue in stats.queues.items()
    }
    return _stats(stats) | {
        "queues": queues,
        "since": time_of(since),
        "until": time_of(until),
        "received": received,
        "settled": settled,
    }


def passed(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came, ended and was answered in a time, as series."""
    since, until = period_in(given, DAY)
    width = _width(given, since, until)
    begin = int(since.timestamp()) // width * width
    at = [datetime.fromtimestamp(second, since.tzinfo) for second in range(begin, int(until.timestamp()) + 1, width)]
    with Reader(folder) as reader:
        traffic = reader.traffic(since, until, width)
    wanted = text_in(given, "channel")
    arrived = [one for one in traffic.arrived if not wanted or one.who == wanted]
    answered = [one for one in traffic.answered if not wanted or one.who == wanted]
    ended = _series(traffic.ended, at, lambda one: (one.who, ENDS.get(one.kind, one.kind)))
    settled: dict[str, dict[str, list[int]]] = defaultdict(dict)
    for (destination, state), points in ended.items():
        settled[destination][state] = points
    return {
        "since": time_of(since),
        "until": time_of(until),
        "seconds": width,
        "at": [time_of(moment) for moment in at],
        "received": _series(arrived, at, lambda one: one.who),
        "refused": _series([one for one in arrived if one.kind == "rejected"], at, lambda one: one.who),
        "settled": settled,
        "ack_ms": _waits(answered, at),
    }


def _stats(stats: Stats) -> dict[str, Any]:
    return {
        "entries": stats.entries,
        "last": stats.last_seq,
        "at_door": stats.at_door,
        "deliveries": stats.deliveries,
        "oldest_unfinished_at": time_of(stats.oldest_unfinished_at),
    }


def _width(given: Mapping[str, Any], since: datetime, until: datetime) -> int:
    """Return the narrowest width of a bucket with which a time has at most so many points."""
    points = number_in(given, "points", POINTS, 1, MOST_POINTS)
    least = (until - since).total_seconds() / points
    days = -(-int(least) // WIDTHS[-1])
    return next((width for width in WIDTHS if width >= least), days * WIDTHS[-1])


def _series(counts: Iterable[Count], at: list[datetime], key: Callable[[Count], Hashable]) -> dict[Any, list[int]]:
    places = {moment: place for place, moment in enumerate(at)}
    found: dict[Any, list[int]] = defaultdict(lambda: [0] * len(at))
    for one in counts:
        if (place := places.get(one.at)) is not None:
            found[key(one)][place] += one.times
    return found


def _waits(counts: list[Count], at: list[datetime]) -> dict[str, dict[str, list[int | None]]]:
    places = {moment: place for place, moment in enumerate(at)}
    found: dict[str, dict[str, list[int | None]]] = defaultdict(
        lambda: {"p50": [None] * len(at), "p99": [None] * len(at)}
    )
    for (channel, moment), group in groupby(counts, key=lambda one: (one.who, one.at)):
        waits = list(group)
        if (place := places.get(moment)) is not None:
            for name, share in (("p50", 0.5), ("p99", 0.99)):
                found[channel][name][place] = _quantile(waits, share)
    return found


def _quantile(waits: list[Count], share: float) -> int:
    """Return the bound, in milliseconds, within which a share of acknowledgements left; the waits rise."""
    left = share * sum(one.times for one in waits)
    for one in waits:
        left -= one.times
        if left <= 0:
            return int(one.kind)
    return int(waits[-1].kind)
