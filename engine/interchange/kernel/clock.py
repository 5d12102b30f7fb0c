"""The service's clock: the wall clock, and how far a test has put it forward."""

from collections.abc import Callable
from datetime import datetime, timedelta


class Clock:
    """Tells the time of a wall clock, put forward by what was asked for."""

    def __init__(self, wall: Callable[[], datetime]) -> None:
        self._wall = wall
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        """Return the moment, aware, UTC."""
        return self._wall() + self._ahead

    def advance(self, seconds: float) -> None:
        """Put the clock forward."""
        self._ahead += timedelta(seconds=seconds)
