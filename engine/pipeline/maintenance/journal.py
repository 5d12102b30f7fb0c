"""Care of the journal while the engine runs: its file verified once a day, old entries pruned, counts rolled up."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import telemetry
from engine.config.channel import Channel, KeptDays, Retention
from engine.errors import ClockAheadError, JournalError, place_of
from engine.journal.claim import clocks
from engine.journal.entry import State
from engine.journal.journal import Journal
from engine.journal.maintenance.retention import RetentionPolicy, Rules, prune
from engine.journal.maintenance.verify import damage_of
from engine.journal.read.backlog import backlogs
from engine.journal.state import way_back
from engine.journal.state.rollup import roll_up
from engine.journal.state.tally import TallyKey
from engine.pipeline.engine import Engine
from engine.pipeline.feed import Feeds

# The first time comes soon, but not during all that a start has to do.
FIRST_SECONDS: Final = 600.0
CHECK_EVERY_SECONDS: Final = 86_400.0

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
        await asyncio.sleep(CHECK_EVERY_SECONDS)


PRUNE_EVERY_SECONDS: Final = 3600.0
# Between two pages the writer serves everybody else.
PRUNE_REST_SECONDS: Final = 0.05


def rules_of(channels: Mapping[str, Channel]) -> Rules:
    """Return what the channels keep; messages of channels that are gone are kept as long as the defaults say."""
    return {"": _kept(Retention()), **{name: _kept(channel.retention) for name, channel in channels.items()}}


async def prune_all(journal: Journal, channels: Mapping[str, Channel], now: datetime) -> dict[str, int]:
    """Walk the journal once; return how many bodies and how many whole entries left it.

    ClockAheadError where the clock is days beyond all that is known: what is not old would leave.
    """
    beyond = await journal.write(partial(clocks.believe, now=now))
    if beyond:
        raise ClockAheadError(beyond.days)
    rules = rules_of(channels)
    body = whole = bodies = entries = 0
    while body >= 0 or whole >= 0:
        page = await journal.write(partial(prune, rules=rules, now=now, after_body=body, after_entry=whole))
        bodies, entries = bodies + page.bodies, entries + page.entries
        body, whole = page.next_body, page.next_entry
        await asyncio.sleep(PRUNE_REST_SECONDS)
    while await journal.write(partial(way_back.forget, now=now)):
        pass
    if bodies or entries:
        _log.info("pruned", bodies=bodies, entries=entries)
    return {"bodies": bodies, "entries": entries}


@asynccontextmanager
async def pruning(journal: Journal, feeds: Feeds, clock: Callable[[], datetime]) -> AsyncIterator[None]:
    """Prune now and every hour while within."""
    task = asyncio.create_task(_prune_hourly(journal, feeds, clock))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _prune_hourly(journal: Journal, feeds: Feeds, clock: Callable[[], datetime]) -> None:
    while True:
        try:
            if journal.leads:
                await prune_all(journal, {name: feed.channel for name, feed in feeds.items()}, clock())
        except ClockAheadError as error:
            _log.error("not pruned", reason="clock-ahead", error=str(error))
        except Exception as error:  # noqa: BLE001 - the last resort: it is tried again, or the disk would fill unseen
            if journal.failed:
                return
            _log.error("not pruned", error=type(error).__name__, point=place_of(error))
        await asyncio.sleep(PRUNE_EVERY_SECONDS)


def _kept(retention: Retention) -> dict[State, RetentionPolicy]:
    return {
        State.DELIVERED: _days(retention.delivered),
        State.FILTERED: _days(retention.filtered),
        State.REJECTED: _days(retention.rejected),
        State.DISCARDED: _days(retention.discarded),
    }


def _days(days: KeptDays) -> RetentionPolicy:
    return RetentionPolicy(timedelta(days=days.bodies_days), timedelta(days=days.entries_days))


ROLL_UP_EVERY_SECONDS: Final = 60.0
# Between two steps through an older journal the writer serves everybody else.
ROLL_UP_REST_SECONDS: Final = 0.1


async def roll(engine: Engine) -> None:
    """Write what was counted since the last time; step through what of an older journal is still to be added."""
    depths: dict[str, int] = {}
    if engine.journal.leads:
        found = await asyncio.to_thread(backlogs, engine.files.data, tuple(engine.dispatches))
        depths = {name: backlog.depth for name, backlog in found.items()}
    more = await _write(engine, depths)
    while more:
        await asyncio.sleep(ROLL_UP_REST_SECONDS)
        more = await _write(engine, {})


async def _write(engine: Engine, depths: Mapping[str, int]) -> bool:
    waits: Counter[TallyKey] = Counter()
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
            if wait.who in engine.dispatches:
                engine.dispatches[wait.who].health.waits[wait] += count
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
        await asyncio.sleep(ROLL_UP_EVERY_SECONDS)
