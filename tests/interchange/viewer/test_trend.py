"""Results by test: what belongs together, in which order, and the line through it."""

from typing import Any

import pytest

from engine.interchange.web.viewer.trend import series


def report(at: str, *observations: dict[str, Any]) -> dict[str, Any]:
    """Return a clinical test of the Chart API."""
    return {"effective": at, "observations": list(observations)}


def value(text: str, **more: Any) -> dict[str, Any]:
    """Return an observation of glucose."""
    return {"code": "2345-7", "codeSystem": "http://loinc.org", "display": "Glucose", "value": text, **more}


def points(path: str) -> list[tuple[float, float]]:
    """Return the points of a path."""
    return [(float(x), float(y)) for x, y in (one.split(",") for one in path.removeprefix("M").split(" L"))]


def test_a_line_goes_from_left_to_right_and_up() -> None:
    """Whatever the order of the reports, time goes to the right by its length, and more is higher."""
    reports = [
        report("2025-01-11", value("98")),
        report("2025-01-01", value("90.5")),
        report("2025-01-06", value("94")),
    ]
    [found] = series(reports)
    (left, low), (middle, _), (right, high) = points(found.line)
    assert left < middle < right
    assert middle - left == pytest.approx(right - middle, abs=0.2)
    assert high < low  # SVG counts downwards
    assert found.end == f"M{right:.1f},{high:.1f} h0"
    assert [one.number for one in found.values] == [98, 90.5, 94]


def test_what_makes_no_line() -> None:
    """One value, values that are no plain numbers, and values of no known day."""
    for reports in (
        [report("2025-01-01", value("98"))],
        [report("2025-01-01", value("98")), report("2025-01-02", value("<5"))],
        [report("", value("98")), report("2025-01-02", value("99"))],
    ):
        [found] = series(reports)
        assert (found.line, found.end) == ("", "")


def test_what_belongs_together() -> None:
    """A test in another unit is another line; parts of a panel are tests of their own; what has no value is none."""
    pressure = {"display": "Blood pressure", "components": [value("120", code="8480-6"), value("80", code="8462-4")]}
    found = series([report("2025-01-01", value("98", unit="mg/dL"), value("5.4", unit="mmol/L"), pressure)])
    assert [one.values[0].shown for one in found] == ["98 mg/dL", "5.4 mmol/L", "120", "80"]


def test_what_is_unusual() -> None:
    """What a result means decides; nothing is said where nothing is."""
    meanings = ({"code": "H", "display": "High"}, {"code": "N", "display": "Normal"}, {})
    found = [series([report("2025", value("1", interpretation=meaning))])[0].values[0] for meaning in meanings]
    assert [(one.meaning, one.unusual) for one in found] == [("High", True), ("Normal", False), ("", False)]
