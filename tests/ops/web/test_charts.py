"""Charts drawn by the server."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from engine.ops.web.charts import HEIGHT, MOST_ROWS, WIDTH, chart

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_nothing_is_drawn_of_nothing() -> None:
    """No points, or none with a value: an empty chart that says so."""
    assert chart("Received", "a minute", []).empty
    assert chart("Received", "a minute", [(BEGAN, None)]).empty


def test_a_chart_tells_its_last_and_its_highest_value() -> None:
    """The numbers beside the drawing, its scale, and rows of a table."""
    points = [(BEGAN + timedelta(minutes=number), float(value)) for number, value in enumerate([3, 42, 7])]
    made = chart("Received", "a minute", points)
    assert (made.now, made.peak, made.top) == ("7", "42", "50")
    assert [value for _, value in made.rows] == ["3", "42", "7"]
    assert made.line.startswith(f"M0.0,{HEIGHT - 3 / 50 * HEIGHT:.1f} L")


def test_a_time_without_values_is_a_gap() -> None:
    """Two runs of points that are far apart are not joined by a line."""
    minutes = (0, 1, 2, 30, 31)
    made = chart("Age", "s", [(BEGAN + timedelta(minutes=number), 1.0) for number in minutes])
    assert made.line.count("M") == 2


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=200))
def test_every_point_lies_in_the_box(values: list[float | None]) -> None:
    """Whatever the values, the line stays inside the drawing and the table stays short."""
    made = chart("Any", "s", [(BEGAN + timedelta(minutes=number), value) for number, value in enumerate(values)])
    places = [point.split(",") for point in made.line.replace("M", "").replace("L", "").split()]
    assert all(0 <= float(x) <= WIDTH + 1 and 0 <= float(y) <= HEIGHT for x, y in places)
    assert len(made.rows) <= MOST_ROWS
