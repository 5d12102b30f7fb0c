"""Catching up: what other nodes of a shared journal have changed takes effect here, a second later at the latest."""

import asyncio
import contextlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from engine import telemetry
from engine.errors import AdtEngineError, place_of
from engine.journal.entry import UNFINISHED, State
from engine.journal.journal import Journal
from engine.journal.read import backlog
from engine.pipeline.alerts.book import AlertBook
from engine.pipeline.dispatch import Dispatch
from engine.pipeline.feed import PipelineContext
from engine.pipeline.inbound.outcomes import EntryOutcome
from engine.pipeline.listeners import Listeners
from engine.pipeline.nodes import keep_newest
from engine.pipeline.repair.bulk_replay import BulkReplays

# How often a node keeps at the latest what it has recorded last.
KEEP_SECONDS: Final = 2.0

_log = telemetry.logger()


class CatchingUp:
    """Takes up what others have paused, stopped, held, acknowledged, settled and left, whenever `heard` is set."""

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        shared: PipelineContext,
        dispatches: Mapping[str, Dispatch],
        listeners: Listeners,
        alerts: AlertBook,
        runs: BulkReplays,
    ) -> None:
        self.heard = asyncio.Event()
        self._journal = journal
        self._folder = folder
        self._shared = shared
        self._dispatches = dispatches
        self._listeners = listeners
        self._alerts = alerts
        self._runs = runs

    async def run(self) -> None:
        """Catch up until cancelled; what fails is logged and tried at the next notice. A failed journal ends it."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KEEP_SECONDS):
                    await self.heard.wait()
            try:
                await asyncio.to_thread(keep_newest, self._journal, self._folder)
                if self.heard.is_set():
                    self.heard.clear()
                    await self.catch_up()
            except AdtEngineError as error:
                if self._journal.failed:
                    return
                _log.error("catching up failed", error=type(error).__name__, point=place_of(error))

    async def catch_up(self) -> None:
        """Take up once what others have changed."""
        await self._shared.pauses.catch_up()
        await self._shared.merges.catch_up()
        await self._listeners.catch_up(self._shared.feeds)
        await self._alerts.recall()
        await self._runs.catch_up()
        for seq, missing in self._shared.outcomes.awaited().items():
            await self._settled(seq, missing)
        for dispatch in self._dispatches.values():
            dispatch.look_again()

    async def _settled(self, seq: int, missing: frozenset[str]) -> None:
        """Tell who waits for an entry how it ended at another node."""
        ended = await self._journal.read(partial(backlog.ended_of, seq))
        for name in missing & ended.keys():
            if ended[name].state not in UNFINISHED or ended[name].state is State.HELD:
                self._shared.outcomes.settled(seq, name, EntryOutcome(*ended[name]))
