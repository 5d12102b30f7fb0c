"""Charts drawn by the server."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ops.web.charts import HEIGHT, MOST_ROWS, WIDTH, LineChart, chart, per_minute

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def drawn(**series: list[float | None]) -> LineChart:
    """Return a chart of series with a point a minute."""
    count = max((len(values) for values in series.values()), default=1)
    return chart("Messages", "a minute", [BEGAN + timedelta(minutes=number) for number in range(count)], series)


def test_nothing_is_drawn_of_nothing() -> None:
    """No series, or none with a value: an empty chart that says so."""
    assert drawn().empty
    assert drawn(received=[None, None]).empty


def test_a_chart_tells_the_last_and_the_highest_value_of_each_series() -> None:
    """The numbers beside the drawing, one scale for all, what stands at each point, and rows of a table."""
    made = drawn(received=[3, 42, 7], refused=[None, 1, None])
    assert [(line.name, line.now, line.peak) for line in made.lines] == [("received", "7", "42"), ("refused", "1", "1")]
    assert made.top == "50"
    assert [values for _, values in made.rows] == [("3", "–"), ("42", "1"), ("7", "–")]
    assert made.lines[0].path.startswith(f"M0.0,{HEIGHT - 3 / 50 * HEIGHT:.1f} L")
    clock = (BEGAN + timedelta(minutes=1)).astimezone()
    assert made.columns[1].text == f"{clock:%H:%M}: received 42 a minute, refused 1 a minute"


def test_a_time_without_values_is_a_gap() -> None:
    """Runs of points with nothing in between are not joined by a line; a single point is a short one."""
    assert drawn(age=[1, 1, None, 1, None, None, 1, 1]).lines[0].path.count("M") == 3


def test_times_of_several_days_say_which() -> None:
    """The hour alone would be two moments."""
    times = [BEGAN + timedelta(hours=6 * number) for number in range(9)]
    made = chart("Messages", "a minute", times, {"received": [1.0] * 9})
    assert made.began_at == f"{BEGAN.astimezone():%d %b %H:%M}"


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=200))
def test_every_point_lies_in_the_box(values: list[float | None]) -> None:
    """Whatever the values, the line stays inside the drawing and the table stays short."""
    made = drawn(any=values)
    places = [point.split(",") for point in made.lines[0].path.replace("M", "").replace("L", "").split()]
    assert all(0 <= float(x) <= WIDTH + 1 and 0 <= float(y) <= HEIGHT for x, y in places)
    assert len(made.rows) <= MOST_ROWS
    assert len(made.columns) == len([value for value in values if value is not None])


@pytest.mark.parametrize(
    ("counts", "seconds", "since", "rates"),
    [
        ([60, 60, 20], 60, 20, [60, 60, None]),  # no dip at the end of even traffic
        ([0, 0, 5], 60, 1, [0, 0, 5]),  # the first messages of all
        ([60, 60, 900], 60, 5, [60, 60, 900]),  # a flood
        ([60, 60, 0], 60, 59, [60, 60, None]),
        ([7], 60, 30, [7]),
        ([600, 600, 900], 600, 200, [60, 60, None]),  # of ten minutes, three late
        ([600, 600, 400], 600, 420, [60, 60, 100]),
    ],
)  # fmt: skip
def test_a_minute_that_is_not_over_is_told_once_it_has_more(
    counts: list[int], seconds: int, since: int, rates: list[float | None]
) -> None:
    """What is counted of it so far, as soon as that is more than there was in the one before."""
    times = [BEGAN + timedelta(seconds=seconds * number) for number in range(len(counts))]
    assert per_minute(times, seconds, times[-1] + timedelta(seconds=since), counts) == rates
