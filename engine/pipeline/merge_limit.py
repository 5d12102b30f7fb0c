"""How many merges one source may send: a brake against a runaway or forged merge feed (`merge_limit`)."""

from collections import deque
from datetime import datetime, timedelta
from typing import Final

CEILING: Final = 10


class MergeLimit:
    """Counts the merges of each source in event time, so that a backlog does not trip it.

    At most `merges` within `window` of event time, and ten times that within `window` of real time.
    """

    def __init__(self, merges: int, window: timedelta) -> None:
        self._merges = merges
        self._window = window
        self._by_event: dict[str, deque[datetime]] = {}
        self._by_clock: dict[str, deque[datetime]] = {}

    def admit(self, source: str, event_at: datetime | None, now: datetime) -> bool:
        """Count one merge of a source; False where it is one too many (and then it is not counted)."""
        event_at = event_at or now
        events = self._by_event.setdefault(source, deque())
        clock = self._by_clock.setdefault(source, deque())
        while clock and clock[0] <= now - self._window:
            clock.popleft()
        near = sum(1 for earlier in events if abs(earlier - event_at) < self._window)
        if near >= self._merges or len(clock) >= self._merges * CEILING:
            return False
        events.append(event_at)
        clock.append(now)
        while len(events) > self._merges * CEILING:
            events.popleft()
        return True
