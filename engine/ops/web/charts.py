"""Charts drawn by the server: lines over time with both axes, bands for outages, and the same values as a table.

The plot is stretched to its place, so what is text is placed in percent of it. A point is the room between two moments;
its value is in the middle of it. Hover text and table are of the same points.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final, NamedTuple

from engine.ops.views.wording import NOTHING

WIDTH: Final = 600
HEIGHT: Final = 120
# A single point is drawn as a short line, and a short outage as a band that can be seen.
SHORTEST: Final = 4.0
# What is counted of a minute that is not over says little.
MINUTE: Final = 60.0
MOST_TICKS: Final = 6
MOST_NAMED: Final = 3
# Steps between the ticks of the axis of time, in minutes.
STEPS: Final = (5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440, 2_880, 7_200, 10_080)
DAY_MINUTES: Final = 1_440
# Units of a duration, in milliseconds, and up to how many of the one before.
DURATIONS: Final = (("ms", 1.0), ("s", 1_000.0), ("min", 60_000.0), ("h", 3_600_000.0))
MOST_OF_A_UNIT: Final = {"ms": 5_000, "s": 300, "min": 300}

Values = Sequence[float | None]


class Tick(NamedTuple):
    """A label of an axis; `place` is in percent, `anchor` how it lies there."""

    place: float
    text: str
    anchor: str = "middle"


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One series: its path, its last and its highest value as text."""

    name: str
    path: str
    last: str
    peak: str


@dataclass(frozen=True, slots=True)
class Point:
    """The values at one point as text, by series, and what else is said of it; `left` and `width` on the plot."""

    left: float
    width: float
    at: str
    values: tuple[str, ...]
    note: str


class ChartRow(NamedTuple):
    """One row of a table: points in a row that say the same."""

    at: str
    values: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Band:
    """An outage, or another time with a name: `left` and `width` on the plot, and where its name is, in percent."""

    left: float
    width: float
    text: str
    name: Tick


class Shade(NamedTuple):
    """A time that a chart shades: from when until when, its short name, and what it was in words."""

    began: datetime
    ended: datetime
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """One chart: lines, both axes, bands, the points, and remarks below it."""

    title: str
    unit: str
    lines: tuple[ChartLine, ...]
    points: tuple[Point, ...]
    value_ticks: tuple[Tick, ...]
    time_ticks: tuple[Tick, ...]
    bands: tuple[Band, ...]
    remarks: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not self.bands and not any(line.path for line in self.lines)

    @property
    def rows(self) -> tuple[ChartRow, ...]:
        """The table: what can be read at the points, and points in a row that say the same as one."""
        return tuple(_rows(self.points))

    @property
    def noted(self) -> bool:
        """Whether something is said of a point besides its values."""
        return any(point.note for point in self.points)

    def hover(self, point: Point) -> str:
        """Return what is shown of a point: what the table says, in a line."""
        named = zip(self.lines, point.values, strict=True)
        values = (f"{line.name} {value} {self.unit}".rstrip() for line, value in named if value != NOTHING)
        return f"{point.at}: " + ", ".join([*values, *([point.note] if point.note else [])])

    def description(self) -> str:
        """Return in a sentence what the drawing shows."""
        return "; ".join(
            [f"{line.name} last {line.last}, at most {line.peak} {self.unit}".rstrip() for line in self.lines]
            + [band.text for band in self.bands]
        )


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The points of a chart: when each begins, and how long it is in seconds."""

    times: Sequence[datetime]
    seconds: int

    @property
    def end(self) -> datetime:
        """When the last point ends."""
        return self.times[-1] + timedelta(seconds=self.seconds)

    def place(self, moment: datetime, size: float) -> float:
        """Return where a moment is, within the axis."""
        length = (self.end - self.times[0]).total_seconds()
        return min(max((moment - self.times[0]).total_seconds() / length, 0.0), 1.0) * size

    def ticks(self) -> Iterator[Tick]:
        """Yield labels at round times of this machine's clock, a few of them."""
        begin, end = self.times[0].astimezone(), self.end
        minutes = (end - begin).total_seconds() / MINUTE
        step = next((one for one in STEPS if minutes / one <= MOST_TICKS), math.ceil(minutes / MOST_TICKS))
        at = begin.replace(hour=0, minute=0, second=0, microsecond=0)
        while at <= end:
            if at >= begin:
                is_day = step >= DAY_MINUTES or (at.hour, at.minute) == (0, 0)
                place = self.place(at, 100.0)
                anchor = "start" if place < 4 else "end" if place > 96 else "middle"
                yield Tick(round(place, 2), at.strftime("%-d %b" if is_day else "%H:%M"), anchor)
            at += timedelta(minutes=step)

    def clock(self) -> Callable[[datetime], str]:
        """Return what writes the times of points: hour and minute, with the day where that is not the same."""
        days = {at.astimezone().date() for at in (self.times[0], self.times[-1])}
        form = "%H:%M" if len(days) == 1 else "%-d %b %H:%M"
        return lambda at: at.astimezone().strftime(form)


def chart(
    title: str,
    unit: str,
    axis: TimeAxis,
    series: Mapping[str, Values],
    shades: Sequence[Shade] = (),
    notes: Mapping[int, str] | None = None,
    remarks: Sequence[str] = (),
) -> LineChart:
    """Return a chart of series that have a value, or None, at each point of an axis.

    `shades`: times that are shaded and named. `notes`: what is said of points besides their values.
    """
    known = [value for values in series.values() for value in values if value is not None]
    top = _round_up(max(known, default=0.0))
    lines = tuple(ChartLine(name, _path(values, top), *_ends(values)) for name, values in series.items())
    bands = tuple(_bands(axis, shades))
    points = tuple(_points(axis, series, shades, notes or {}))
    value_ticks = (Tick(100, "0"), Tick(50, short(top / 2)), Tick(0, short(top)))
    return LineChart(title, unit, lines, points, value_ticks, tuple(axis.ticks()), bands, tuple(remarks))


def duration_chart(title: str, axis: TimeAxis, series: Mapping[str, Values], **given: object) -> LineChart:
    """Return a chart of durations given in milliseconds, in the unit in which they can be read."""
    top = max((value for values in series.values() for value in values if value is not None), default=0.0)
    unit, size = next((unit, size) for unit, size in DURATIONS if top / size < MOST_OF_A_UNIT.get(unit, math.inf))
    scaled = {name: [None if value is None else value / size for value in values] for name, values in series.items()}
    return chart(title, unit, axis, scaled, **given)  # type: ignore[arg-type]  # what chart takes


def per_minute(axis: TimeAxis, now: datetime, counts: Values) -> list[float | None]:
    """Return how many there were in a minute at each point; None while too little of one is over.

    A minute that is not over and already has more than the one before is shown: a flood, or the first messages of all.
    """
    over = [min((now - at).total_seconds(), axis.seconds) for at in axis.times]
    rates = [
        count * MINUTE / past if count is not None and past >= MINUTE else None
        for count, past in zip(counts, over, strict=True)
    ]
    last = counts[-1]
    if axis.seconds <= MINUTE and rates[-1] is None and last is not None:
        before = next((count for count in counts[-2:-1] if count is not None), 0)
        rates[-1] = float(last) if last > before else None
    return rates


def short(value: float) -> str:
    """Return a value as text, to three digits or to the whole."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}".replace(",", "\u202f")
    digits = max(2 - math.floor(math.log10(value)), 0)
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")


def _points(
    axis: TimeAxis, series: Mapping[str, Values], shades: Sequence[Shade], notes: Mapping[int, str]
) -> Iterator[Point]:
    """Yield the points of which something is known."""
    step, clock, long = WIDTH / len(axis.times), axis.clock(), timedelta(seconds=axis.seconds)
    for place, at in enumerate(axis.times):
        values = tuple(NOTHING if values[place] is None else short(values[place] or 0.0) for values in series.values())
        said = [one.name for one in shades if one.began < at + long and one.ended > at]
        note = "; ".join(dict.fromkeys([*([notes[place]] if place in notes else []), *said]))
        if note or set(values) != {NOTHING}:
            yield Point(place * step, step, clock(at), values, note)


def _rows(points: Sequence[Point]) -> Iterator[ChartRow]:
    for (values, note), group in groupby(points, key=lambda point: (point.values, point.note)):
        alike = list(group)
        began, ended = alike[0].at, alike[-1].at
        yield ChartRow(began if len(alike) == 1 else f"{began} to {ended}", values, note)


def _bands(axis: TimeAxis, shades: Sequence[Shade]) -> Iterator[Band]:
    """Yield the bands; the widest few have their name on the plot."""
    visible = [one for one in shades if one.began < axis.end and one.ended > axis.times[0]]
    named = sorted(visible, key=lambda one: one.began - one.ended)[:MOST_NAMED]
    for one in visible:
        left, right = axis.place(one.began, WIDTH), axis.place(one.ended, WIDTH)
        at_left = left < WIDTH * 0.6
        place = round((left if at_left else right) / WIDTH * 100, 2)
        name = Tick(place, one.name if one in named else "", "start" if at_left else "end")
        yield Band(left, max(right - left, SHORTEST), one.text, name)


def _path(values: Values, top: float) -> str:
    """Return the path of a line, with a gap where there is no value."""
    step = WIDTH / max(len(values), 1)
    runs: list[list[tuple[float, float]]] = [[]]
    for place, value in enumerate(values):
        if value is not None:
            runs[-1].append(((place + 0.5) * step, HEIGHT - value / top * HEIGHT))
        elif runs[-1]:
            runs.append([])
    alone = SHORTEST / 2
    drawn = [
        run if len(run) > 1 else [(run[0][0] - alone, run[0][1]), (run[0][0] + alone, run[0][1])] for run in runs if run
    ]
    return " ".join("M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in drawn)


def _ends(values: Values) -> tuple[str, str]:
    """Return the last and the highest value."""
    known = [value for value in values if value is not None]
    return (short(known[-1]), short(max(known))) if known else (NOTHING, NOTHING)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 … at or above a value, or of 0.1, 0.2 …, so that scales do not jump about."""
    if value <= 0:
        return 1.0
    power = 10.0 ** max(math.floor(math.log10(value)), -3)
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)
