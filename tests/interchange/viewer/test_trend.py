"""Results by test: what belongs together, in which order, and the line through it."""

from typing import Any

import pytest

from engine.interchange.web.viewer.trend import flowsheet, series, without_unit


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
    assert [one.number for one in found.values] == [98, 94, 90.5]


def test_what_makes_no_line() -> None:
    """One value, values that are no finite numbers, and values of no known day."""
    for reports in (
        [report("2025-01-01", value("98"))],
        [report("2025-01-01", value("98")), report("2025-01-02", value("<5"))],
        [report("2025-01-01", value("98")), report("2025-01-02", value("nan"))],
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


def test_void_values_are_left_out() -> None:
    """What was cancelled or entered in error is in no trend, of a report or an observation; other states are said."""
    void = report("2025-01-02", value("500", status="entered-in-error"), value("98", status="preliminary"))
    cancelled = {**report("2025-01-03", value("600", status="final")), "status": "cancelled"}
    [found] = series([cancelled, void])
    assert [(one.text, one.state) for one in found.values] == [("98", "preliminary")]


def test_short_names_that_are_told_apart() -> None:
    """Tests that share a short name have their full ones; where these are the same too, their codes."""
    loinc = {"codeSystem": "http://loinc.org"}
    blood = value("98", **loinc, display="Glucose [Mass/volume] in Blood")
    serum = value("99", **{**loinc, "code": "2339-0"}, display="Glucose [Mass/volume] in Serum or Plasma")
    assert [one.title for one in series([report("2025", blood)])] == ["Glucose"]
    assert [one.title for one in series([report("2025", blood, serum)])] == [blood["display"], serum["display"]]
    same = [one.title for one in series([report("2025", blood, {**blood, "code": "X"})])]
    assert same == [f"{blood['display']} (2345-7)", f"{blood['display']} (X)"]


def test_one_unit_written_twice() -> None:
    """`mm[Hg]` and `mmHg` are one unit, and one line."""
    [found] = series(
        [report("2025-01-02", value("120", unit="mmHg")), report("2025-01-01", value("110", unit="mm[Hg]"))]
    )
    assert (found.unit, len(found.points)) == ("mmHg", 2)


def test_a_flowsheet_a_page_at_a_time() -> None:
    """Times are columns, newest first, to the minute; each page has the tests with a value at one of its times."""
    hdl = value("51", code="2085-9", display="HDL")
    reports = [
        report("2025-01-01T08:00:00Z", value("1")),
        report("2025-01-03T08:00:00Z", value("3"), hdl),
        report("2025-01-02T08:00:30Z", value("2")),
        report("2025-01-02T08:00:10Z", value("2.5")),
        report("", value("9")),
    ]
    sheets = [flowsheet(series(reports), page, 2) for page in ("1", "2")]
    assert [list(sheet.times.items) for sheet in sheets] == [
        ["2025-01-03 08:00 UTC", "2025-01-02 08:00 UTC"],
        ["2025-01-01 08:00 UTC", ""],
    ]
    shown = [
        [(row.series.title, [[one.text for one in cell] for cell in row.cells]) for row in sheet.rows]
        for sheet in sheets
    ]
    assert shown == [[("Glucose", [["3"], ["2", "2.5"]]), ("HDL", [["51"], []])], [("Glucose", [["1"], ["9"]])]]
    assert [(sheet.times.first, sheet.times.last, sheet.times.total) for sheet in sheets] == [(1, 2, 4), (3, 4, 4)]
    assert [flowsheet(series(reports), page, 2).times.number for page in ("", "x", "0", "99")] == [1, 1, 1, 2]


@pytest.mark.parametrize(
    ("text", "unit", "shown"),
    [
        ("4.5 g/dL to 11 g/dL", "g/dL", "4.5 to 11"),
        ("≥ 40 g/dL; < 5 g", "g", "≥ 40 g/dL; < 5"),
        ("negative", "", "negative"),
    ],
)
def test_a_range_without_its_unit(text: str, unit: str, shown: str) -> None:
    """The unit of a value is not repeated in its range; another unit stays."""
    assert without_unit(text, unit) == shown
