"""The charts of the overview: which there are, what is shaded in each, and volumes with links to their messages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple
from urllib.parse import urlencode

from engine.journal.state.tally import OTHERS
from engine.journal.state.uptime import STOPPED
from engine.ops.views.charting import QUANTILES, ChartOutage, Charts, Measures
from engine.ops.views.wording import moment_of, span
from engine.ops.web.charts import LineChart, Shade, TimeAxis, chart, duration_chart, per_minute, short

# What an outage is called, by its kind.
OUTAGES: Final[Mapping[str, str]] = {
    "destination-down": "{0} did not answer",
    "destination-failure": "{0} could not be used",
    "destination-paused": "{0} was paused",
    "hold-storm": "{0} was paused after many holds",
    STOPPED: "the engine did not run",
}
MOST_REMARKS: Final = 4


@dataclass(slots=True)
class ChartPage:
    """Draws what an operation found."""

    found: Charts
    now: datetime
    axis: TimeAxis = field(init=False)

    def __post_init__(self) -> None:
        """Make the axis of time that all charts share."""
        self.axis = TimeAxis([moment_of(at) or self.now for at in self.found.at], self.found.seconds)

    def charts(self, destinations: Iterable[str]) -> Iterator[LineChart]:
        """Yield each chart, those of destinations last."""
        found, stopped = self.found, list(self._shades(set()))
        counts = f"in {span(found.seconds)}"
        yield chart(
            "Messages",
            "a minute",
            self.axis,
            {
                "received": per_minute(self.axis, self.now, self._total(found.received)),
                "delivered": per_minute(self.axis, self.now, self._total(found.delivered)),
            },
            stopped,
        )
        held = {"held": self._total(found.held), "refused": self._total(found.refused)}
        yield chart("Held and refused", counts, self.axis, held, stopped)
        everything = list(self._shades({one.subject for one in found.outages}))
        yield chart("Waiting", "messages, at most", self.axis, found.depth, everything)
        remarks = [f"Before {_clock(found.coarse_until)} counted in ranges by an older version: up to 60 % off."]
        yield duration_chart(
            "ACK time", self.axis, found.ack_ms, shades=stopped, remarks=remarks if found.coarse_until else ()
        )
        for name in destinations:
            yield self._delivery(name)

    def destinations(self) -> list[str]:
        """Return the destinations of which something is known."""
        stopped = (one.subject for one in self.found.outages if one.kind != STOPPED)
        return sorted({*self.found.delivery_ms, *self.found.depth, *stopped})

    def _delivery(self, name: str) -> LineChart:
        nothing: Measures = (None,) * len(self.found.at)
        delayed = [(place, count) for place, count in enumerate(self.found.delayed.get(name, ())) if count]
        total = sum(count for _place, count in delayed)
        remarks = [f"{short(total)} waited through an outage: no measure of {name}, and not in the lines."]
        return duration_chart(
            f"Delivery to {name}",
            self.axis,
            self.found.delivery_ms.get(name) or dict.fromkeys(QUANTILES, nothing),
            shades=list(self._shades({name})),
            notes={place: f"{short(count)} waited through an outage" for place, count in delayed},
            remarks=remarks if total else (),
        )

    def _shades(self, subjects: set[str]) -> Iterator[Shade]:
        """Yield the outages of some destinations, and of the engine."""
        for one in self.found.outages:
            if one.kind == STOPPED or one.subject in subjects:
                began, ended = moment_of(one.began_at) or self.now, moment_of(one.ended_at) or self.now
                name = OUTAGES[one.kind].format(one.subject)
                yield Shade(began, ended, name, f"{name}, {_clock(one.began_at)} to {_until(one)}")

    def _total(self, series: Mapping[str, Sequence[int | None]]) -> list[int | None]:
        """Return the sum of series at each point; where there is none, as many as nothing was counted of."""
        nothing = [None if count is None else 0 for count in self._counted()]
        return [_sum(values) for values in zip(nothing, *series.values(), strict=True)]

    def _counted(self) -> Sequence[int | None]:
        """Return a series by which it is known where nothing was counted."""
        for series in (self.found.received, self.found.delivered, self.found.held, self.found.refused):
            for counts in series.values():
                return counts
        return [0] * len(self.found.at)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _clock(moment: str | None) -> str:
    found = moment_of(moment)
    return f"{found.astimezone():%-d %b %H:%M}" if found else ""


def _until(one: ChartOutage) -> str:
    began, ended = moment_of(one.began_at), moment_of(one.ended_at)
    if began is None or ended is None:
        return "now"
    same_day = began.astimezone().date() == ended.astimezone().date()
    return f"{ended.astimezone():%H:%M}" if same_day else _clock(one.ended_at)


class VolumeRow(NamedTuple):
    """How many messages bear a name, the address of their list, and how they compare with the most frequent."""

    name: str
    address: str
    messages: int
    share: str


class Volume(NamedTuple):
    """Messages of the period by channel, sender or event; `most`: how many the most frequent has."""

    title: str
    column: str
    rows: tuple[VolumeRow, ...]
    most: int


# Titles, what the column is headed by, and the filter of the list of messages.
VOLUMES: Final = (
    ("channel", "By channel", "Channel", "channel"),
    ("sender", "By sender", "MSH-3|MSH-4", "source"),
    ("event", "By event", "Event", "event"),
)


def volumes(found: Charts) -> list[Volume]:
    """Return the messages of the period by channel, sender and event; what was not counted by name is a row as well."""
    total = sum(found.volume["channel"].values())
    period = {"since": found.at[0], "until": found.until}
    return [
        _volume(title, column, filtered, found.volume[kind], total, period)
        for kind, title, column, filtered in VOLUMES
        if total
    ]


def _volume(
    title: str, column: str, filtered: str, counts: Mapping[str, int], total: int, period: Mapping[str, str]
) -> Volume:
    rows = [(name or "without a name", _address(filtered, name, period), count) for name, count in counts.items()]
    rows = [("all others" if name == OTHERS else name, address, count) for name, address, count in rows]
    if (left := total - sum(counts.values())) > 0:
        rows.append(("before this version", "", left))
    return Volume(
        title,
        column,
        tuple(VolumeRow(name, address, count, _share(count, total)) for name, address, count in rows),
        max((count for _name, _address, count in rows), default=1),
    )


def _share(count: int, total: int) -> str:
    """Return a share in percent; what is little is not said to be nothing."""
    return f"{count / total:.0%}" if count * 200 >= total else "<1%"


def _address(filtered: str, name: str, period: Mapping[str, str]) -> str:
    return "" if name in {"", OTHERS} else f"/messages?{urlencode({filtered: name, **period})}"
