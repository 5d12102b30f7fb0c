"""Results by test: the values over time, a line of the numeric ones, and the flowsheet of tests by times."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.store.search.date import NEVER, span
from engine.interchange.web.viewer.filters import ListPage, page_of
from engine.interchange.web.viewer.naming import coded, moment, readable, short_name, spoken

WIDTH: Final = 600
HEIGHT: Final = 80
EDGE: Final = 6
# Interpretations that are not abnormal (v3-ObservationInterpretation), with '' for none.
USUAL: Final = frozenset({"", "N", "NEG", "ND", "NR", "S"})
# States of a report or an observation whose values count for nothing, and those that go without saying.
VOID: Final = frozenset({"cancelled", "entered-in-error"})
SETTLED: Final = frozenset({"", "final", "appended", "partial"})


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One value of a test: time, value, reference range, interpretation, and whether it is abnormal.

    `text` is the value without its unit, `state` its state in words where it is neither final nor void.
    """

    at: str
    shown: str
    number: float | None
    usual: str
    meaning: str
    unusual: bool
    text: str = ""
    state: str = ""


@dataclass(slots=True)
class Series:
    """All values of a test in one unit, newest first.

    `detail` is the test's full name and code, `written` the unit as it came: its UCUM code, or a text.
    """

    title: str
    unit: str
    detail: str = ""
    written: str = ""
    values: list[TrendPoint] = field(default_factory=list)

    @property
    def points(self) -> list[tuple[int, float]]:
        """The numeric values with a time, oldest first."""
        dated = [(span(value.at), value.number) for value in self.values]
        return sorted((covered[0], number) for covered, number in dated if covered and number is not None)

    @property
    def usual(self) -> str:
        """The reference range of the newest value that has one."""
        return next((value.usual for value in self.values if value.usual), "")

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
    """Return the results of clinical tests by what was measured, those with the newest values first.

    Values that were cancelled or entered in error are left out. Tests that share a short name have their full ones.
    """
    by_test: dict[tuple[str, str, str], Series] = {}
    displays: dict[tuple[str, str, str], str] = {}
    for report in items:
        for one in _measured(report):
            name, unit = one.get("display", ""), readable(one.get("unit", ""))
            key = (one.get("codeSystem", ""), one.get("code", "") or name, unit)
            made = Series(short_name(one), unit, coded(one), written_unit(one.get("unit", ""), one.get("unitCode", "")))
            values, value = by_test.setdefault(key, made).values, _value(one, report)
            displays.setdefault(key, name)
            if value not in values:
                values.append(value)
    _tell_apart(by_test, displays)
    for found in by_test.values():
        found.values.sort(key=lambda value: _instant(value.at), reverse=True)
    return list(by_test.values())


@dataclass(frozen=True, slots=True)
class FlowsheetRow:
    """A test in a unit: its series, and its values at each of the sheet's times."""

    series: Series
    cells: tuple[tuple[TrendPoint, ...], ...]


@dataclass(frozen=True, slots=True)
class Flowsheet:
    """Tests by times, newest first: the times of one page, and a row for each test that has a value at one of them."""

    times: ListPage[str]
    rows: tuple[FlowsheetRow, ...]


def flowsheet(tests: Sequence[Series], page: str, columns: int) -> Flowsheet:
    """Return one page of the flowsheet of some tests; times are to the minute, what has none is the last."""
    moments: dict[str, int] = {}
    for value in (value for one in tests for value in one.values):
        moments[moment(value.at)] = max(_instant(value.at), moments.get(moment(value.at), NEVER))
    times = page_of(sorted(moments, key=lambda at: moments[at], reverse=True), page, columns)
    rows = (
        FlowsheetRow(one, tuple(tuple(v for v in one.values if moment(v.at) == at) for at in times.items))
        for one in tests
    )
    return Flowsheet(times, tuple(row for row in rows if any(row.cells)))


def _tell_apart(by_test: Mapping[tuple[str, str, str], Series], displays: Mapping[tuple[str, str, str], str]) -> None:
    """Give tests of one short name their full names, and their codes where these are the same too."""
    for titles in (displays, {key: f"{displays[key]} ({key[1]})" for key in by_test}):
        tests: dict[str, set[tuple[str, str]]] = {}
        for key, one in by_test.items():
            tests.setdefault(one.title, set()).add(key[:2])
        for key, one in by_test.items():
            one.title = titles[key] if len(tests[one.title]) > 1 else one.title


def _measured(report: JsonObject) -> Iterator[JsonObject]:
    """Yield the observations of a report and their components that have a value which counts."""
    if report.get("status", "") in VOID:
        return
    for observation in report.get("observations", ()):
        if observation.get("status", "") in VOID:
            continue
        shared = {name: observation.get(name, "") for name in ("effective", "status")}
        for part in (observation, *({**shared, **part} for part in observation.get("components", ()))):
            if part.get("value") or part.get("absentReason"):
                yield part


def _value(one: JsonObject, report: JsonObject) -> TrendPoint:
    meaning = one.get("interpretation", {})
    text, unit = one.get("value", ""), one.get("unit", "")
    text = text or short_name(one.get("absentReason"))
    state = one.get("status", "") or report.get("status", "")
    return TrendPoint(
        at=one.get("effective", "") or report.get("effective", ""),
        shown=f"{text} {readable(unit)}".strip() if one.get("value") else text,
        number=_number(text),
        usual=without_unit(one.get("referenceRange", ""), unit),
        meaning=meaning.get("display", "") or meaning.get("code", ""),
        unusual=meaning.get("code", "") not in USUAL,
        text=text,
        state="" if state in SETTLED else spoken(state),
    )


def written_unit(unit: str, code: str) -> str:
    """Return a unit as it came where people write it otherwise: its UCUM code, or the text."""
    if code:
        return f"UCUM {code}" if code != readable(unit) else ""
    return f"unit {unit}" if unit != readable(unit) else ""


def without_unit(text: str, unit: str) -> str:
    """Return a reference range without the unit of the value next to it."""
    return re.sub(rf" {re.escape(unit)}(?![^\s;,)])", "", text) if unit else text


def _instant(at: str) -> int:
    covered = span(at)
    return covered[0] if covered else NEVER


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _x(at: int, first: int, last: int) -> float:
    return EDGE + (at - first) / max(last - first, 1) * (WIDTH - 2 * EDGE)


def _y(number: float, low: float, high: float) -> float:
    return HEIGHT / 2 if high == low else HEIGHT - EDGE - (number - low) / (high - low) * (HEIGHT - 2 * EDGE)
