"""Results by test: the values over time, and a line of the numeric ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.store.search.date import span

WIDTH: Final = 600
HEIGHT: Final = 80
EDGE: Final = 6
# Interpretations that are not abnormal (v3-ObservationInterpretation), with '' for none.
USUAL: Final = frozenset({"", "N", "NEG", "ND", "NR", "S"})


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One value of a test: time, value, reference range, interpretation, and whether it is abnormal."""

    at: str
    shown: str
    number: float | None
    usual: str
    meaning: str
    unusual: bool


@dataclass(slots=True)
class Series:
    """All values of a test in one unit, newest first."""

    title: str
    unit: str
    values: list[TrendPoint] = field(default_factory=list)

    @property
    def points(self) -> list[tuple[int, float]]:
        """The numeric values with a time, oldest first."""
        dated = [(span(value.at), value.number) for value in self.values]
        return sorted((covered[0], number) for covered, number in dated if covered and number is not None)

    @property
    def line(self) -> str:
        """The SVG path of a line through the values, '' for fewer than two."""
        points = self.points
        if len(points) < 2:
            return ""
        (first, last), numbers = (points[0][0], points[-1][0]), [number for _, number in points]
        low, high = min(numbers), max(numbers)
        steps = (f"{_x(at, first, last):.1f},{_y(number, low, high):.1f}" for at, number in points)
        return "M" + " L".join(steps)

    @property
    def end(self) -> str:
        """The SVG path of the last point."""
        return f"M{self.line.rpartition('L')[2]} h0" if self.line else ""


def series(items: Iterable[JsonObject]) -> list[Series]:
    """Return the results of clinical tests by what was measured, those with the newest values first."""
    by_test: dict[tuple[str, ...], Series] = {}
    for report in items:
        for one in _measured(report.get("observations", ())):
            name, unit = one.get("display", ""), one.get("unit", "")
            key = (one.get("codeSystem", ""), one.get("code", "") or name, unit)
            by_test.setdefault(key, Series(name or one.get("code", ""), unit)).values.append(_value(one, report))
    return list(by_test.values())


def _measured(observations: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield an observation and its components that have a value."""
    for observation in observations:
        parts = observation.get("components", ())
        for part in (observation, *({"effective": observation.get("effective", ""), **part} for part in parts)):
            if part.get("value") or part.get("absentReason"):
                yield part


def _value(one: JsonObject, report: JsonObject) -> TrendPoint:
    meaning = one.get("interpretation", {})
    text = one.get("value", "")
    shown = f"{text} {one.get('unit', '')}".strip() if text else one.get("absentReason", {}).get("display", "")
    return TrendPoint(
        at=one.get("effective", "") or report.get("effective", ""),
        shown=shown,
        number=_number(text),
        usual=one.get("referenceRange", ""),
        meaning=meaning.get("display", "") or meaning.get("code", ""),
        unusual=meaning.get("code", "") not in USUAL,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _x(at: int, first: int, last: int) -> float:
    return EDGE + (at - first) / max(last - first, 1) * (WIDTH - 2 * EDGE)


def _y(number: float, low: float, high: float) -> float:
    return HEIGHT / 2 if high == low else HEIGHT - EDGE - (number - low) / (high - low) * (HEIGHT - 2 * EDGE)
