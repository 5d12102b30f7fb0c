"""Checking the journal's file while the engine runs: once a day, in a thread of its own, on a reading connection."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from engine import telemetry
from engine.errors import place_of
from engine.journal.maintenance.verify import damage_of
from engine.pipeline.engine import Engine

# The first time comes soon, but not during all that a start has to do.
FIRST_SECONDS: Final = 600.0
EVERY_SECONDS: Final = 86_400.0

_log = telemetry.logger()


@asynccontextmanager
async def checked(engine: Engine) -> AsyncIterator[None]:
    """Check every day while within; damage is kept in the engine's `damage`, for its alerts."""
    stop = threading.Event()
    task = asyncio.create_task(_check(engine, stop))
    try:
        yield
    finally:
        stop.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _check(engine: Engine, stop: threading.Event) -> None:
    await asyncio.sleep(FIRST_SECONDS)
    while True:
        try:
            engine.damage = await asyncio.to_thread(damage_of, engine.files.data, stop.is_set)
        except Exception as error:  # noqa: BLE001 - the last resort: it is tried again the next day
            _log.error("journal not checked", error=type(error).__name__, point=place_of(error))
        if engine.damage:
            _log.critical("journal damaged", reason=engine.damage)
        await asyncio.sleep(EVERY_SECONDS)
