"""Series for charts over an hour, a day, a week or a month, from counts that the journal keeps rolled up."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from engine.journal.read.reading import Reader
from engine.journal.state.counters import floor_of
from engine.journal.state.rollup import Rolled
from engine.ops.views.answer import Answer, Count, Time, moment_text

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
