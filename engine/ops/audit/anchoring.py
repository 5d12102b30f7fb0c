"""Anchoring: the running engine signs the end of its audit trail every 1,000 rows or 10 minutes, and when it stops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Final

from engine import telemetry
from engine.errors import AdtEngineError
from engine.journal.access import audit
from engine.journal.journal import Journal
from engine.ops.audit.anchors import Anchor, Anchors
from engine.ops.audit.trail import AuditTrail

ROWS: Final = 1000
EVERY: Final = timedelta(minutes=10)
LOOK_SECONDS: Final = 5.0

_log = telemetry.logger()


class Anchoring:
    """Adds an anchor where one is due; `failing` says why the last one could not be added, empty where it was."""

    def __init__(self, journal: Journal, anchors: Anchors, clock: Callable[[], datetime]) -> None:
        self._journal = journal
        self._anchors = anchors
        self._clock = clock
        self._last: int | None = None
        self._due: datetime | None = None
        self.failing = ""

    async def tick(self, *, at_once: bool = False) -> Anchor | None:
        """Add an anchor where there are new rows and it is time, or `at_once`; None where nothing was added.

        A file or key that fails is logged; the rows stay due.
        """
        if self._last is None:
            self._last = await asyncio.to_thread(self._known)
        seq, hashed = await self._journal.read(audit.head)
        new = seq - self._last if seq >= self._last else seq
        if not new:
            return None
        now = self._clock()
        self._due = self._due or now + EVERY
        if not at_once and new < ROWS and now < self._due:
            return None
        self._due = now + EVERY
        return await self._add(seq, hashed, now)

    async def _add(self, seq: int, hashed: bytes, now: datetime) -> Anchor | None:
        try:
            anchor = await asyncio.to_thread(self._anchors.add, seq, hashed, now)
        except (AdtEngineError, OSError) as error:
            self.failing = f"{self._anchors.file.name}: {type(error).__name__}"
            _log.error("audit not anchored", error=type(error).__name__, file=str(self._anchors.file), count=seq)
            return None
        self.failing = ""
        self._last, self._due = seq, None
        _log.info("audit anchored", count=seq, digest=anchor.hash)
        return anchor

    def _known(self) -> int:
        last = self._anchors.last()
        return 0 if last is None else last.seq


@contextlib.asynccontextmanager
async def watched(trail: AuditTrail, anchoring: Anchoring) -> AsyncIterator[None]:
    """Write into the trail that the engine runs, and that it stops; keep the trail anchored meanwhile."""
    await trail.note("engine.started")
    task = asyncio.create_task(_keep(anchoring))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        with contextlib.suppress(AdtEngineError):
            await trail.note("engine.stopped")
            await anchoring.tick(at_once=True)


async def _keep(anchoring: Anchoring) -> None:
    with contextlib.suppress(AdtEngineError):  # a journal that failed stops the engine
        while True:
            await anchoring.tick()
            await asyncio.sleep(LOOK_SECONDS)
