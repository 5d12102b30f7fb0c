"""The brake on merges counts in event time, with a ceiling in real time."""

from datetime import UTC, datetime, timedelta

from engine.pipeline.merge_limit import CEILING, MergeLimit

START = datetime(2025, 7, 1, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_too_many_in_one_window_of_event_time() -> None:
    """The merge after the last allowed one within the window is refused, for that source alone."""
    limit = MergeLimit(3, 10 * MINUTE)
    assert [limit.admit("A|B", START + MINUTE * n, START) for n in range(4)] == [True, True, True, False]
    assert limit.admit("C|D", START, START)


def test_a_backlog_does_not_trip_it() -> None:
    """Merges that happened hours apart are let through although they arrive within a second."""
    limit = MergeLimit(2, 10 * MINUTE)
    assert all(limit.admit("A|B", START + timedelta(hours=n), START) for n in range(10))


def test_the_ceiling_in_real_time_holds_whatever_the_events_say() -> None:
    """Ten times the limit in real time is the end, even with event times far apart."""
    limit = MergeLimit(2, 10 * MINUTE)
    admitted = [limit.admit("A|B", START + timedelta(days=n), START) for n in range(2 * CEILING + 1)]
    assert admitted == [True] * (2 * CEILING) + [False]
    assert limit.admit("A|B", START + timedelta(days=999), START + 11 * MINUTE)


def test_a_message_without_a_time_counts_as_now() -> None:
    """Without EVN-2 and MSH-7 the clock decides."""
    limit = MergeLimit(1, 10 * MINUTE)
    assert limit.admit("A|B", None, START)
    assert not limit.admit("A|B", None, START + MINUTE)
    assert limit.admit("A|B", None, START + 11 * MINUTE)
