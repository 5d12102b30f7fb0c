"""Timekeeping: a wall clock that is set back is noticed by one that never jumps, and keeps no retry waiting."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import telemetry
from engine.journal.claim import clocks
from engine.journal.journal import Journal

# Less is what time services correct by.
STEP: Final = timedelta(seconds=5)

_log = telemetry.logger()


class Timekeeper:
    """Compares the wall clock with a steady one, in seconds; `step` says how far it went back, until it is read."""

    def __init__(
        self, journal: Journal, clock: Callable[[], datetime], steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._steady = steady
        self._began = self._beginning()
        self._step = timedelta()

    async def open(self) -> None:
        """Check whether the clock is behind what an earlier run wrote, and mend the times of what waits."""
        now = self._clock()
        newest = await self._journal.read(clocks.newest)
        await self._mend(newest - now if newest else timedelta())

    async def mind(self) -> bool:
        """Say whether the clock was set back since the last look, and mend what waits; a glance where it was not."""
        before, self._began = self._began, self._beginning()
        back = before - self._began > STEP
        if back:
            await self._mend(before - self._began)
        return back

    def step(self) -> timedelta:
        """Return how far the clock went back since this was last asked; zero where it did not."""
        step, self._step = self._step, timedelta()
        return step

    def _beginning(self) -> datetime:
        """Return the time of day at which the steady clock stood at zero: the same until somebody sets the clock."""
        return self._clock() - timedelta(seconds=self._steady())

    async def _mend(self, step: timedelta) -> None:
        await self._journal.write(partial(clocks.hurry, now=self._clock()))
        if step > STEP:
            self._step = max(self._step, step)
            _log.error("clock went back", seconds=round(step.total_seconds()))
