"""The brake on a destination whose failures are no matter of single patients."""

from datetime import UTC, datetime, timedelta

from engine.pipeline.outbound.pauses import STORM_LANES, STORM_WINDOW, HoldStorm

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_the_same_failure_in_many_lanes_is_a_storm() -> None:
    """The fiftieth lane within five minutes makes it one, and then it counts anew."""
    storm = HoldStorm()
    found = [storm.held("http-422", (lane,), lane, START) for lane in range(2 * STORM_LANES)]
    assert [number for number, one in enumerate(found, 1) if one] == [STORM_LANES, 2 * STORM_LANES]


def test_one_patient_alone_is_none() -> None:
    """A lane counts once, however often it is held, and each reason counts by itself."""
    storm = HoldStorm()
    assert not any(storm.held("http-422", (1, 2), seq, START) for seq in range(200))
    assert not any(storm.held(f"reason-{lane % 3}", (lane,), lane, START) for lane in range(STORM_LANES))


def test_what_is_spread_over_hours_is_none() -> None:
    """Only what was held within the window counts."""
    storm = HoldStorm()
    step = 2 * STORM_WINDOW / STORM_LANES
    assert not any(storm.held("http-422", (lane,), lane, START + lane * step) for lane in range(500))


def test_holds_that_a_site_asks_for_are_none() -> None:
    """A policy that holds, and what has a brake of its own, never pauses a destination."""
    storm = HoldStorm()
    assert not any(storm.held("merge-limit", (lane,), lane, START + timedelta(0)) for lane in range(200))
