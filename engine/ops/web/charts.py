"""Charts drawn by the server: lines in a box of fixed size, the label of each point, and the same as a table."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engine.ops.web.wording import NOTHING

WIDTH: Final = 600
HEIGHT: Final = 120
MOST_ROWS: Final = 12
# A single point is drawn as a short line.
SHORTEST: Final = 4.0
# What is counted of a minute that is not over says little; wider points come some three minutes late.
MINUTE: Final = 60.0
LATE_SECONDS: Final = 180.0

Values = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One series: its path, its last and its highest value as text."""

    name: str
    path: str
    now: str
    peak: str


@dataclass(frozen=True, slots=True)
class Column:
    """The room of one point, from left to right, and its label."""

    left: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class LineChart:
    """One chart: lines, the label of each point, and rows of a table, each the highest of its part of the time."""

    title: str
    unit: str
    lines: tuple[ChartLine, ...]
    columns: tuple[Column, ...]
    top: str
    began_at: str
    ended_at: str
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not any(line.path for line in self.lines)


def chart(title: str, unit: str, times: Sequence[datetime], series: Mapping[str, Values]) -> LineChart:
    """Return a chart of series that have a value, or None, at each of some times that are equally far apart."""
    known = [value for values in series.values() for value in values if value is not None]
    if not known:
        return LineChart(
            title, unit, tuple(ChartLine(name, "", NOTHING, NOTHING) for name in series), (), "", "", "", ()
        )
    top = _round_up(max(known))
    clock = _clock(times)
    step = WIDTH / max(len(times) - 1, 1)
    lines = tuple(ChartLine(name, _path(values, step, top), *_ends(values)) for name, values in series.items())
    columns = tuple(
        Column(max(place * step - step / 2, 0.0), step, _said(clock(at), unit, series, place))
        for place, at in enumerate(times)
        if any(values[place] is not None for values in series.values())
    )
    return LineChart(title, unit, lines, columns, _short(top), clock(times[0]), clock(times[-1]), _rows(times, series))


def per_minute(times: Sequence[datetime], seconds: int, now: datetime, counts: Sequence[int]) -> list[float | None]:
    """Return how many there were in a minute, at points of `seconds`; None while too little of one is over.

    A minute that is not over and already has more than the one before is shown: a flood, or the first messages of all.
    """
    late = LATE_SECONDS if seconds > MINUTE else 0.0
    over = [min((now - at).total_seconds() - late, seconds) for at in times]
    rates = [count * 60 / past if past >= MINUTE else None for count, past in zip(counts, over, strict=True)]
    if seconds <= MINUTE and rates[-1] is None and counts[-1] > max(counts[-2:-1], default=0):
        rates[-1] = float(counts[-1])
    return rates


def _path(values: Values, step: float, top: float) -> str:
    """Return the path of a line, with a gap where there is no value."""
    runs: list[list[tuple[float, float]]] = [[]]
    for place, value in enumerate(values):
        if value is not None:
            runs[-1].append((place * step, HEIGHT - value / top * HEIGHT))
        elif runs[-1]:
            runs.append([])
    drawn = [run if len(run) > 1 else [(max(run[0][0] - SHORTEST, 0.0), run[0][1]), run[0]] for run in runs if run]
    return " ".join("M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in drawn)


def _ends(values: Values) -> tuple[str, str]:
    """Return the last and the highest value."""
    known = [value for value in values if value is not None]
    return (_short(known[-1]), _short(max(known))) if known else (NOTHING, NOTHING)


def _said(at: str, unit: str, series: Mapping[str, Values], place: int) -> str:
    found = ((name, values[place]) for name, values in series.items())
    return f"{at}: " + ", ".join(
        f"{name} {_short(value)} {unit}".rstrip() for name, value in found if value is not None
    )


def _rows(times: Sequence[datetime], series: Mapping[str, Values]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return at most a dozen rows: the beginning of a part of the time, and the highest of each series in it."""
    size, clock = math.ceil(len(times) / MOST_ROWS), _clock(times)
    parts = range(0, len(times), size)
    rows = (
        (clock(times[first]), tuple(_ends(values[first : first + size])[1] for values in series.values()))
        for first in parts
    )
    return tuple(row for row in rows if set(row[1]) != {NOTHING})


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 … at or above a value, so that scales do not jump about."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _short(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 10 or value == int(value) else f"{value:.1f}"


def _clock(times: Sequence[datetime]) -> Callable[[datetime], str]:
    """Return what writes the times of a chart: hour and minute, with the day where that is not the same."""
    days = {at.astimezone().date() for at in (times[0], times[-1])}
    form = "%H:%M" if len(days) == 1 else "%d %b %H:%M"
    return lambda at: at.astimezone().strftime(form)
