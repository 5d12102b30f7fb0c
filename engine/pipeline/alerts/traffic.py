"""What is usual: how many messages a channel has at each hour of the week, learnt from the weeks before."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from engine.journal.state.alerting import hour_of

WEEK_HOURS: Final = 24 * 7
WEEKS: Final = 4
# A silence is no accident where this many messages would have come in the quietest of the weeks before.
EXPECTED: Final = 20.0
LEAST: Final = timedelta(minutes=10)


def usual(hours: Mapping[int, int], hour: int) -> int:
    """Return the least that came in the same hour of the weeks before; 0 unless two of them are known."""
    begun = min(hours, default=hour)
    known = [hours.get(hour - week * WEEK_HOURS, 0) for week in range(1, WEEKS + 1) if hour - week * WEEK_HOURS > begun]
    return min(known) if len(known) >= 2 else 0


def expected(hours: Mapping[int, int], since: datetime, now: datetime) -> float:
    """Return how many messages would have been usual between two moments."""
    total = 0.0
    for hour in range(hour_of(since), hour_of(now) + 1):
        begins, ends = max(since.timestamp(), hour * 3600.0), min(now.timestamp(), (hour + 1) * 3600.0)
        total += usual(hours, hour) * max(ends - begins, 0.0) / 3600.0
    return total


def is_silent(hours: Mapping[int, int], since: datetime, now: datetime) -> bool:
    """Say whether nothing came for longer than is usual at this hour of the week."""
    since = max(since, now - timedelta(hours=WEEK_HOURS))
    return now - since >= LEAST and expected(hours, since, now) >= EXPECTED
