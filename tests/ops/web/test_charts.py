"""Charts drawn by the server: lines, axes, bands, and a table that says what is shown of a point."""

import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engine.journal.state.tally import bucket_of
from engine.ops.views.charting import quantile
from engine.ops.web.charts import HEIGHT, WIDTH, LineChart, Shade, TimeAxis, chart, duration_chart, per_minute, short

BEGAN = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SIZES = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0, "h": 3_600_000.0}


def axis(points: int, seconds: int = 60) -> TimeAxis:
    """Return points from noon on."""
    return TimeAxis([BEGAN + timedelta(seconds=seconds * number) for number in range(points)], seconds)


def drawn(**series: list[float | None]) -> LineChart:
    """Return a chart of series with a point a minute."""
    return chart("Messages", "a minute", axis(max((len(values) for values in series.values()), default=1)), series)


def places(made: LineChart, line: int = 0) -> list[tuple[float, float]]:
    """Return where the points of a line are drawn."""
    pairs = re.findall(r"([-\d.]+),([-\d.]+)", made.lines[line].path)
    return [(float(x), float(y)) for x, y in pairs]


def test_nothing_is_drawn_of_nothing() -> None:
    """No series, or none with a value: an empty chart that says so."""
    assert drawn().empty
    assert drawn(received=[None, None]).empty
    assert drawn(received=[None, None]).rows == ()


def test_a_chart_shows_the_last_and_the_highest_value_of_each_series() -> None:
    """Next to the drawing, with one scale for all; a value is in the middle of its point."""
    made = drawn(received=[3, 42, 7], refused=[None, 1, None])
    assert [(line.name, line.last, line.peak) for line in made.lines] == [
        ("received", "7", "42"),
        ("refused", "1", "1"),
    ]
    assert [tick.text for tick in made.value_ticks] == ["0", "25", "50"]
    assert places(made)[0] == (WIDTH / 6, round(HEIGHT - 3 / 50 * HEIGHT, 1))


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.floats(0, 1e6))] * 2), min_size=1, max_size=60))
def test_table_and_hover_say_the_same(values: list[tuple[float | None, float | None]]) -> None:
    """Each point is in exactly one row, which has its values; what is not known is in neither."""
    made = drawn(p50=[one for one, _ in values], p99=[other for _, other in values])
    known = [pair for pair in values if pair != (None, None)]
    assert len(made.points) == len(known)
    shown = {row.values for row in made.rows}
    for point, pair in zip(made.points, known, strict=True):
        assert point.values in shown
        hover = made.hover(point)
        for name, value, text in zip(("p50", "p99"), pair, point.values, strict=True):
            assert (f"{name} {text} a minute" in hover) == (value is not None)
            assert (text == "–") == (value is None)


def test_points_in_a_row_that_say_the_same_are_one_row() -> None:
    """So that a quiet day is a short table; a gap has no row."""
    made = drawn(held=[0, 0, 0, 4, None, 0])
    clock = [f"{BEGAN.astimezone() + number * MINUTE:%H:%M}" for number in range(6)]
    assert [(row.at, row.values) for row in made.rows] == [
        (f"{clock[0]} to {clock[2]}", ("0",)),
        (clock[3], ("4",)),
        (clock[5], ("0",)),
    ]


def test_a_time_without_values_is_a_gap() -> None:
    """Runs of points with nothing in between are not joined by a line; a single point is a short one."""
    assert drawn(age=[1, 1, None, 1, None, None, 1, 1]).lines[0].path.count("M") == 3


def test_an_outage_is_shaded_and_named() -> None:
    """In the plot, in words, and at each point of it; a short one can still be seen, one of another time is not."""
    shades = [
        Shade(BEGAN + 2 * MINUTE, BEGAN + 5 * MINUTE, "cdis was paused", "cdis was paused, 12:02 to 12:05"),
        Shade(BEGAN + 9 * MINUTE, BEGAN + 9 * MINUTE + timedelta(seconds=1), "short", "short"),
        Shade(BEGAN - 9 * MINUTE, BEGAN - MINUTE, "before", "before"),
    ]
    made = chart("Waiting", "messages", axis(10), {"cdis": [0.0, 0.0, *[None] * 3, *[0.0] * 5]}, shades)
    assert [(band.left, band.width, band.name.text) for band in made.bands] == [
        (120, 180, "cdis was paused"),
        (540, 4, "short"),
    ]
    assert [point.note for point in made.points] == ["", "", *["cdis was paused"] * 3, "", "", "", "", "short"]
    assert made.hover(made.points[2]).endswith(": cdis was paused")
    assert "cdis was paused, 12:02 to 12:05" in made.description()


def test_a_chart_of_an_outage_alone_is_drawn() -> None:
    """Nothing was delivered: that is what there is to see."""
    shade = Shade(BEGAN, BEGAN + MINUTE, "down", "down")
    assert not chart("Delivery", "ms", axis(3), {"p99": [None] * 3}, [shade]).empty


@pytest.mark.parametrize(
    ("points", "seconds", "form"),
    [(60, 60, "%H:%M"), (144, 600, "%H:%M"), (168, 3_600, "%-d %b"), (120, 21_600, "%-d %b"), (1, 60, "%H:%M")],
)
def test_the_axis_of_time_has_a_few_round_times(points: int, seconds: int, form: str) -> None:
    """Equally far apart, in the plot, by this machine's clock; a midnight is named by its day."""
    ticks, length = list(axis(points, seconds).ticks()), points * seconds
    assert 1 <= len(ticks) <= 7
    apart = [later.place - earlier.place for earlier, later in pairwise(ticks)]
    assert max(apart, default=0) - min(apart, default=0) < 0.1
    for tick in ticks:
        assert 0 <= tick.place <= 100
        moment = (BEGAN + timedelta(seconds=length * (tick.place + 0.01) / 100)).astimezone()
        assert tick.text in {moment.strftime(form), moment.strftime("%-d %b")}


def test_times_of_several_days_say_which() -> None:
    """The hour alone would be two moments."""
    made = chart("Messages", "a minute", axis(9, 21_600), {"received": [float(number) for number in range(9)]})
    assert made.rows[0].at == f"{BEGAN.astimezone():%-d %b %H:%M}"


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=200))
def test_every_point_lies_in_the_box(values: list[float | None]) -> None:
    """Whatever the values, the line stays inside the drawing."""
    made = drawn(any=values)
    assert all(-2 <= x <= WIDTH + 2 and 0 <= y <= HEIGHT for x, y in places(made))
    assert len(made.points) == len([value for value in values if value is not None])


@given(
    st.lists(st.lists(st.integers(2, 40 * 86_400 * 10**6), max_size=40), min_size=1, max_size=10),
    st.sampled_from([0.5, 0.99]),
)
def test_a_latency_is_shown_within_5_percent(waits: list[list[int]], share: float) -> None:
    """What hover and table say, read back in its unit, is the true quantile of what was measured."""
    assume(any(waits))
    found = [quantile(Counter(map(bucket_of, some)), share) for some in waits]
    made = duration_chart("ACK time", axis(len(waits)), {"p": found})
    true = [sorted(some)[max(-(-len(some) * round(share * 100) // 100), 1) - 1] / 1_000 for some in waits if some]
    texts = [point.values[0].replace("\u202f", "") for point in made.points]
    assert len(texts) == len(true)
    for text, exact in zip(texts, true, strict=True):
        assert float(text) * SIZES[made.unit] == pytest.approx(exact, rel=0.05)


@pytest.mark.parametrize(
    ("milliseconds", "unit", "text"),
    [
        (0.42, "ms", "0.42"),
        (12.4, "ms", "12.4"),
        (4_990, "ms", "4\u202f990"),
        (68_000, "s", "68"),
        (3_000_000, "min", "50"),
    ],
)
def test_a_duration_is_in_a_unit_that_can_be_read(milliseconds: float, unit: str, text: str) -> None:
    """All of one chart in the same."""
    made = duration_chart("ACK time", axis(1), {"p50": [milliseconds]})
    assert (made.unit, made.points[0].values) == (unit, (text,))


@given(st.floats(1e-6, 1e9))
def test_a_value_has_three_digits(value: float) -> None:
    """Or all of those before the point."""
    assert float(short(value).replace("\u202f", "")) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("counts", "seconds", "since", "rates"),
    [
        ([60, 60, 20], 60, 20, [60, 60, None]),  # no dip at the end of even traffic
        ([0, 0, 5], 60, 1, [0, 0, 5]),  # the first messages of all
        ([None, None, 5], 60, 1, [None, None, 5]),
        ([60, 60, 900], 60, 5, [60, 60, 900]),  # a flood
        ([60, 60, 0], 60, 59, [60, 60, None]),
        ([7], 60, 30, [7]),
        ([600, None, 900], 600, 20, [60, None, None]),
        ([600, 600, 400], 600, 240, [60, 60, 100]),
    ],
)  # fmt: skip
def test_a_minute_that_is_not_over_is_shown_once_it_has_more(
    counts: list[int | None], seconds: int, since: int, rates: list[float | None]
) -> None:
    """What is counted of it so far, as soon as that is more than there was in the one before."""
    points = axis(len(counts), seconds)
    assert per_minute(points, points.times[-1] + timedelta(seconds=since), counts) == rates
