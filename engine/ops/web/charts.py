"""Charts drawn by the server: a path in a box of fixed size, its scale, and the same numbers as a table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

WIDTH: Final = 600
HEIGHT: Final = 120
MOST_ROWS: Final = 12
# A single point is drawn as a short line.
SHORTEST: Final = 4.0
# A longer time without a value is shown as a gap.
_GAP_SECONDS: Final = 130.0

Point = tuple[datetime, float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart: the drawing, what a screen reader reads, and rows for those who cannot see it."""

    title: str
    unit: str
    line: str
    area: str
    top: str
    now: str
    peak: str
    began_at: str
    ended_at: str
    rows: tuple[tuple[str, str], ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw yet."""
        return not self.line


def chart(title: str, unit: str, points: Sequence[Point]) -> Chart:
    """Return a chart of points in the order of time; None is a step without a value."""
    valued = [(at, value) for at, value in points if value is not None]
    if not valued:
        return Chart(title, unit, "", "", "", "–", "–", "", "", ())
    peak = max(value for _, value in valued)
    top = _round_up(peak)
    began, ended = points[0][0], points[-1][0]
    runs = _runs(valued, began, max((ended - began).total_seconds(), 1.0), top)
    line = " ".join("M" + " L".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs)
    area = " ".join(
        f"M{run[0][0]:.1f},{HEIGHT} L"
        + " L".join(f"{x:.1f},{y:.1f}" for x, y in run)
        + f" L{run[-1][0]:.1f},{HEIGHT} Z"
        for run in runs
    )
    return Chart(
        title,
        unit,
        line,
        area,
        _short(top),
        _short(valued[-1][1]),
        _short(peak),
        _clock(began),
        _clock(ended),
        _rows(valued),
    )


def _runs(
    points: Sequence[tuple[datetime, float]], began: datetime, seconds: float, top: float
) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = []
    last: datetime | None = None
    for at, value in points:
        place = ((at - began).total_seconds() / seconds * WIDTH, HEIGHT - value / top * HEIGHT)
        if last is None or (at - last).total_seconds() > _GAP_SECONDS:
            runs.append([])
        runs[-1].append(place)
        last = at
    return [run if len(run) > 1 else [(max(run[0][0] - SHORTEST, 0.0), run[0][1]), run[0]] for run in runs]


def _rows(points: Sequence[tuple[datetime, float]]) -> tuple[tuple[str, str], ...]:
    """Return at most a dozen rows, each the highest of its part of the time."""
    size = math.ceil(len(points) / MOST_ROWS)
    parts = [points[first : first + size] for first in range(0, len(points), size)]
    return tuple((_clock(part[0][0]), _short(max(value for _, value in part))) for part in parts)


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20 … at or above a value, so that scales do not jump about."""
    if value <= 1:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _short(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f") if value >= 10 or value == int(value) else f"{value:.1f}"


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M}"
