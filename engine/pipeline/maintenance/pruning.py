"""Pruning of the journal while the engine runs: old entries are removed once an hour, page by page."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine import telemetry
from engine.config.channel import Channel, Retention
from engine.config.channel import Kept as Days
from engine.errors import ClockAheadError, place_of
from engine.journal.claim import clocks
from engine.journal.entry import State
from engine.journal.journal import Journal
from engine.journal.maintenance.retention import RetentionPolicy, Rules, prune
from engine.pipeline.feed import Feeds

EVERY_SECONDS: Final = 3600.0
# Between two pages the writer serves everybody else.
REST_SECONDS: Final = 0.05

_log = telemetry.logger()


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
        await asyncio.sleep(REST_SECONDS)
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
        await asyncio.sleep(EVERY_SECONDS)


def _kept(retention: Retention) -> dict[State, RetentionPolicy]:
    return {
        State.DELIVERED: _days(retention.delivered),
        State.FILTERED: _days(retention.filtered),
        State.REJECTED: _days(retention.rejected),
        State.DISCARDED: _days(retention.discarded),
    }


def _days(days: Days) -> RetentionPolicy:
    return RetentionPolicy(timedelta(days=days.bodies_days), timedelta(days=days.entries_days))
