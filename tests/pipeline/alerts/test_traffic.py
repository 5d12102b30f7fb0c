"""What is usual at an hour of the week, with simulated weeks."""

from datetime import UTC, datetime, timedelta

from engine.journal.state.alerting import hour_of
from engine.pipeline.alerts.rules import expected, is_silent, usual

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
WEEK = timedelta(weeks=1)


def weeks(number: int) -> dict[int, int]:
    """Return hours of some weeks before Monday: 120 messages an hour by day, one by night."""
    hours = {}
    for back in range(1, 24 * 7 * number + 1):
        moment = MONDAY - timedelta(hours=back)
        hours[hour_of(moment)] = 120 if 8 <= moment.hour < 18 else 1
    return hours


def test_silence_by_day_is_noticed_and_by_night_it_is_none() -> None:
    """The same ten minutes mean something at ten in the morning and nothing at three."""
    hours, ten, three = weeks(4), MONDAY + timedelta(hours=10), MONDAY + timedelta(hours=3)
    assert not is_silent(hours, ten - timedelta(minutes=9), ten)
    assert is_silent(hours, ten - timedelta(minutes=11), ten)
    assert not is_silent(hours, three - timedelta(hours=2), three)


def test_nothing_is_known_of_the_first_weeks() -> None:
    """One week is no habit."""
    ten = MONDAY + timedelta(hours=10)
    assert not is_silent(weeks(1), ten - timedelta(hours=2), ten)
    assert usual(weeks(1), hour_of(ten)) == 0
    assert usual(weeks(3), hour_of(ten)) == 120


def test_the_quietest_of_the_weeks_counts() -> None:
    """A holiday among them makes the alert shy, not eager."""
    hours, ten = weeks(4), MONDAY + timedelta(hours=10)
    hours[hour_of(ten - 2 * WEEK)] = 0
    assert expected(hours, ten, ten + timedelta(minutes=30)) == 0


def test_a_silence_over_several_hours_adds_up() -> None:
    """What was usual in each of them is counted by its share."""
    eight = MONDAY + timedelta(hours=7, minutes=30)
    assert expected(weeks(4), eight, eight + timedelta(hours=1)) == 60.5
