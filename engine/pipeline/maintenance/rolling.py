"""Rolling up while the engine runs: once a minute what was counted is written for charts, in one small transaction."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from engine import telemetry
from engine.errors import JournalError, place_of
from engine.journal.read.backlog import backlogs
from engine.journal.state.rollup import WaitBucket, roll_up
from engine.pipeline.engine import Engine

EVERY_SECONDS: Final = 60.0
# Between two steps through an older journal the writer serves everybody else.
REST_SECONDS: Final = 0.1

_log = telemetry.logger()


async def roll(engine: Engine) -> None:
    """Write what was counted since the last time; step through what of an older journal is still to be added."""
    depths: dict[str, int] = {}
    if engine.journal.leads:
        found = await asyncio.to_thread(backlogs, engine.files.data, tuple(engine.dispatches))
        depths = {name: backlog.depth for name, backlog in found.items()}
    more = await _write(engine, depths)
    while more:
        await asyncio.sleep(REST_SECONDS)
        more = await _write(engine, {})


async def _write(engine: Engine, depths: Mapping[str, int]) -> bool:
    waits: Counter[WaitBucket] = Counter()
    for dispatch in engine.dispatches.values():
        waits += dispatch.health.waits
        dispatch.health.waits.clear()
    try:
        return await engine.journal.write(
            partial(roll_up, waits=waits, depths=depths, begun=engine.started_at, now=engine.now())
        )
    except Exception:
        # Written with the next minute. A write that is cut off as the engine stops is under way, and not asked again.
        for wait, count in waits.items():
            if wait.destination in engine.dispatches:
                engine.dispatches[wait.destination].health.waits[wait] += count
        raise


@asynccontextmanager
async def rolled_up(engine: Engine) -> AsyncIterator[None]:
    """Write once a minute while within, and once more at the end."""
    task = asyncio.create_task(_run(engine))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(JournalError):
            await _write(engine, {})


async def _run(engine: Engine) -> None:
    while True:
        try:
            await roll(engine)
        except Exception as error:  # noqa: BLE001 - the last resort: charts miss a minute, and the next one is written
            if engine.journal.failed:
                return
            _log.error("counts not rolled up", error=type(error).__name__, point=place_of(error))
        await asyncio.sleep(EVERY_SECONDS)
