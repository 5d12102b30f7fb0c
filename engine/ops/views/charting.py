"""Series for charts: what came, ended, waited and how long it took, with outages; null where nothing was measured."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import UsageError
from engine.journal.read.reading import Reader
from engine.journal.state import alerting, tally, uptime
from engine.journal.state.rollup import Rolled
from engine.journal.state.tally import OTHERS, SECOND, WIDEST, WIDTHS
from engine.ops.views.answer import Answer, Count, Time, moment_text, time_of

Measure = float | None
Values = tuple[int | None, ...]
Measures = tuple[Measure, ...]


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
# Of a period of one's own choice.
MOST_POINTS: Final = 180
LONGEST: Final = timedelta(days=40)
MOST_SHOWN: Final = 8


class ChartPeriod(NamedTuple):
    """What charts show: the beginning, the end, and the width of a point in seconds; `span` where one was named."""

    span: str
    since: datetime
    until: datetime
    width: int


def chart_period(span: str, since: datetime | None, until: datetime | None, now: datetime) -> ChartPeriod:
    """Return the period that a span or two moments name; UsageError where charts do not show it.

    Without `since` it is the span (1 h by default) that ends at `until`; what is to come is left out.
    """
    if span and span not in SPANS:
        raise UsageError(f"--span {span} is none of {', '.join(SPANS)}")
    if span and since:
        raise UsageError("--span and --since are two beginnings: name one of them")
    if since is None and until is None:
        return ChartPeriod(span or "1h", now - SPANS[span or "1h"].length, now, SPANS[span or "1h"].width)
    end = min(until or now, now)
    begin = since or end - SPANS[span or "1h"].length
    if begin >= now:
        raise UsageError("--since is yet to come: charts show what was")
    if begin >= end:
        raise UsageError("--since is not before --until: there is nothing in between")
    if begin < now - LONGEST:
        raise UsageError(f"charts go back {LONGEST.days} days: choose a later --since")
    return ChartPeriod("", begin, end, _width(begin, end, now))


def _width(begin: datetime, end: datetime, now: datetime) -> int:
    """Return the narrowest width of which rows are still there, and with which there are not too many points."""
    age, length = (now - begin).total_seconds(), (end - begin).total_seconds()
    return next(
        (width for width, kept in WIDTHS.items() if age * SECOND <= kept and length / width <= MOST_POINTS), WIDEST
    )


class ChartOutage(Answer, facts=True):
    """When a destination took nothing (`kind`: its alert), or the engine did not run; `ended_at` null: it lasts."""

    kind: str
    subject: str
    began_at: Time
    ended_at: Time | None


class Charts(Answer, facts=True):
    """Series of points of `seconds` each; `at` is where each begins, and the last one may not be over yet.

    `received` and `refused` by channel, `delivered` by destination, `held` by where it was held. `depth`: the most that
    waited for a destination. `ack_ms` (of all channels) and `delivery_ms` (from receipt to delivery, by destination,
    without replays): `p50` and `p99`, within 4 % of what was measured. `delayed`: deliveries of messages that waited
    through an outage, which `delivery_ms` leaves out. `volume`: messages of the whole period by `channel`, `sender`
    (MSH-3|MSH-4) and `event`, the most frequent first; `*` are all others. `coarse_until`: acknowledgements before then
    were counted by an older version, in ranges, and are up to 60 % off. Null: nothing was measured at that point.
    """

    span: str
    since: Time
    until: Time
    seconds: Count
    at: tuple[Time, ...]
    received: dict[str, Values]
    refused: dict[str, Values]
    delivered: dict[str, Values]
    held: dict[str, Values]
    depth: dict[str, Values]
    ack_ms: dict[str, Measures]
    delivery_ms: dict[str, dict[str, Measures]]
    delayed: dict[str, Values]
    outages: tuple[ChartOutage, ...]
    volume: dict[str, dict[str, Count]]
    coarse_until: Time | None


def charted(folder: Path, period: ChartPeriod, now: datetime) -> Charts:
    """Return the series of a period."""
    at = _points(period)
    begin, end = at[0], min(at[-1] + timedelta(seconds=period.width), now)
    with Reader(folder) as reader:
        rows = reader.rolled(period.width, begin, at[-1] + timedelta(seconds=period.width))
        outages = reader.outages(begin, end)
        counted_since = reader.counted_since()
    series = _Series(at, rows)
    unknown = _unknown(at, period.width, counted_since, outages)
    return Charts(
        span=period.span,
        since=moment_text(period.since),
        until=moment_text(period.until),
        seconds=period.width,
        at=tuple(map(moment_text, at)),
        depth=series.depth,
        ack_ms=_quantiles(series.ack),
        delivery_ms={name: _quantiles(histograms) for name, histograms in series.deliveries.items()},
        delayed=_known(series.counts[tally.DELAYED], unknown),
        outages=tuple(
            ChartOutage(
                kind=one.kind, subject=one.subject, began_at=moment_text(one.began_at), ended_at=time_of(one.ended_at)
            )
            for one in outages
        ),
        volume=series.volume(),
        coarse_until=time_of(series.coarse_until(period.width)),
        **{name: _known(series.counts[name], unknown) for name in COUNTED},
    )


def _points(period: ChartPeriod) -> list[datetime]:
    """Return where the points of a period begin; a span has as many at any moment."""
    last = math.ceil(period.until.timestamp()) - 1
    if period.span:
        last = int(period.until.timestamp())
        first = last // period.width - int(SPANS[period.span].length.total_seconds()) // period.width + 1
    else:
        first = int(period.since.timestamp()) // period.width
    return [datetime.fromtimestamp(place * period.width, UTC) for place in range(first, last // period.width + 1)]


class _Series:
    """Rows of a journal, by series and point."""

    def __init__(self, at: Sequence[datetime], rows: Iterable[Rolled]) -> None:
        self._at = at
        self.counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0] * len(at)))
        self.depth: dict[str, list[int | None]] = defaultdict(lambda: [None] * len(at))
        self.ack: list[Counter[int]] = [Counter() for _ in at]
        self.deliveries: dict[str, list[Counter[int]]] = defaultdict(lambda: [Counter() for _ in at])
        self._coarse = -1
        places = {int(moment.timestamp()) * SECOND: place for place, moment in enumerate(at)}
        for row in rows:
            if (place := places.get(row.at)) is not None:
                self._add(row, place)

    def _add(self, row: Rolled, place: int) -> None:
        if row.series == "depth":
            self.depth[row.who][place] = row.times
        elif row.series == tally.ACK:
            self.ack[place][row.bucket] += row.times
            self._coarse = max(self._coarse, place) if row.is_coarse else self._coarse
        elif row.series == tally.DELIVERY:
            self.deliveries[row.who][place][row.bucket] += row.times
        else:
            self.counts[row.series][row.who][place] += row.times

    def coarse_until(self, width: int) -> datetime | None:
        """Return the end of the last point that an older program counted; None where none did."""
        return None if self._coarse < 0 else self._at[self._coarse] + timedelta(seconds=width)

    def volume(self) -> dict[str, dict[str, int]]:
        """Return how many messages came by channel, sender and event."""
        kinds = {"channel": "received", "sender": tally.SENDER, "event": tally.EVENT}
        return {kind: _most({who: sum(one) for who, one in self.counts[name].items()}) for kind, name in kinds.items()}


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the most frequent names, and all others together."""
    named = sorted(
        ((count, who) for who, count in counts.items() if who != OTHERS and count), key=lambda one: (-one[0], one[1])
    )
    others = counts.get(OTHERS, 0) + sum(count for count, _who in named[MOST_SHOWN:])
    return {who: count for count, who in named[:MOST_SHOWN]} | ({OTHERS: others} if others else {})


def _unknown(
    at: Sequence[datetime], width: int, counted_since: datetime | None, outages: Sequence[alerting.Outage]
) -> set[int]:
    """Return the points at which nothing was counted: before all, and while the engine did not run."""
    stops = [one for one in outages if one.kind == uptime.STOPPED]
    found = set()
    for place, begin in enumerate(at):
        end = begin + timedelta(seconds=width)
        stopped = any(one.began_at <= begin and (one.ended_at is None or one.ended_at >= end) for one in stops)
        if counted_since is None or end <= counted_since or stopped:
            found.add(place)
    return found


def _known(series: Mapping[str, Sequence[int]], unknown: set[int]) -> dict[str, Values]:
    """Return counts, and None where nothing was counted; a count that is there all the same stays."""
    return {
        who: tuple(None if place in unknown and not count else count for place, count in enumerate(counts))
        for who, counts in series.items()
    }


def _quantiles(histograms: Sequence[Counter[int]]) -> dict[str, Measures]:
    return {name: tuple(quantile(one, share) for one in histograms) for name, share in QUANTILES.items()}


def quantile(histogram: Mapping[int, int], share: float) -> Measure:
    """Return within how many milliseconds a share of what was counted by bucket lies; None where nothing was.

    It is the middle of the bucket that holds the value of that rank, to four digits.
    """
    rank = math.ceil(round(share * sum(histogram.values()), 6))
    for bucket in sorted(histogram):
        rank -= histogram[bucket]
        if rank <= 0:
            return float(f"{tally.milliseconds_of(bucket):.4g}")
    return None
