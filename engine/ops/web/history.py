"""The last hour of what no table of the journal tells: how old the oldest unfinished message was at each moment."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from engine.database.sqlite import SqliteError
from engine.errors import AdtEngineError

EVERY_SECONDS: Final = 10.0
MOST_SAMPLES: Final = 361

Sample = tuple[datetime, float]


class History:
    """Ages in seconds, the oldest sample first."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)

    def take(self, at: datetime, oldest_at: datetime | None) -> None:
        """Add the age of the oldest unfinished message, zero where all is finished."""
        self.samples.append((at, max((at - oldest_at).total_seconds(), 0.0) if oldest_at else 0.0))


async def keep(
    history: History,
    clock: Callable[[], datetime],
    oldest: Callable[[], Awaitable[datetime | None]],
    stopping: asyncio.Event,
) -> None:
    """Take a sample every few seconds until the engine stops."""
    while not stopping.is_set():
        with contextlib.suppress(AdtEngineError, SqliteError):
            history.take(clock(), await oldest())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), EVERY_SECONDS)
