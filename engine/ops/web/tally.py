"""How much is held, for the menu of every page: counted anew after a few seconds, once for all who look."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from engine.database.sqlite import SqliteError
from engine.errors import AdtEngineError
from engine.journal.read.backlog import backlogs
from engine.pipeline.engine import Engine

FRESH_SECONDS: Final = 3.0


class HeldCounter:
    """The number of held deliveries, at most three seconds old; what was counted last where it cannot be counted."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        self._ticks = ticks
        self._held = 0
        self._at = float("-inf")

    async def held(self, engine: Engine) -> int:
        """Return it."""
        if self._ticks() - self._at > FRESH_SECONDS:
            self._at = self._ticks()
            try:
                found = await asyncio.to_thread(backlogs, engine.files.data, sorted(engine.dispatches))
            except (AdtEngineError, SqliteError):
                return self._held
            self._held = sum(one.held for one in found.values())
        return self._held
