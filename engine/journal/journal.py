"""The journal as the event loop sees it: every call returns once what it wrote is durable.

A message is recorded with its lanes and acknowledgement, claimed when it heads its lanes, announced by an intent before
each write, and settled. All of it goes through one writer thread (writer.py).
"""

import asyncio
import importlib
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from engine.database.connection import Connection
from engine.errors import LeaseLostError
from engine.http.request import HttpRequest
from engine.journal.claim.claiming import Claims
from engine.journal.entry import AckOutcome, Claimed, NewEntry, Recorded, Settlement
from engine.journal.file.lock import FolderLock
from engine.journal.file.reserve import DiskReserve
from engine.journal.file.sealing import configured
from engine.journal.write.backend import FileBackend, JournalBackend, SharedJournal
from engine.journal.write.group_commit import GroupCommit, Supply
from engine.journal.write.job import JobKind, WriterContext, WriterJob
from engine.journal.write.writer import JournalWriter

_T = TypeVar("_T")


class Journal:
    """The durable record of one data folder; open it with `Journal.open`, from within a running event loop.

    After an I/O error every call raises JournalFailedError, and `fail` has been called once.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], datetime],
        fail: Callable[[BaseException], None],
        reserve_bytes: int | None,
        shared: SharedJournal | None,
    ) -> None:
        self._lock = FolderLock(folder)
        try:
            # The newest entry that was recorded here since the start.
            self.newest = 0
            self._group = group = GroupCommit(self._put, clock, fail)
            self._backend: JournalBackend = (
                FileBackend(folder, DiskReserve(folder, reserve_bytes), configured())
                if shared is None
                else _node_backend(shared, self._put)
            )
            self._writer = JournalWriter(self._backend, group.hand_back, group.stopped)
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    async def open(
        cls,
        folder: Path,
        *,
        clock: Callable[[], datetime],
        fail: Callable[[BaseException], None],
        reserve_bytes: int | None = None,
        shared: SharedJournal | None = None,
    ) -> "Journal":
        """Open the journal of a data folder that exists, or as a node one that it shares with others.

        `fail` is called on the event loop when the journal stops for good. `reserve_bytes`: free bytes below which
        nothing new is accepted; None for 5 % of the disk, at most 512 MiB. JournalUnusableError says what to mend.
        """
        journal = cls(folder, clock, fail, reserve_bytes, shared)
        journal._writer.thread.start()
        try:
            await journal._group.opened
        except BaseException:
            journal._lock.release()
            raise
        return journal

    @property
    def failed(self) -> bool:
        """Say whether the journal has stopped because of an I/O error."""
        return self._group.failure is not None

    @property
    def lost(self) -> bool:
        """Whether it has stopped because other nodes have taken this one for dead."""
        return isinstance(self._group.failure, LeaseLostError)

    @property
    def is_shared(self) -> bool:
        """Whether other processes may be nodes of this journal."""
        return self._backend.lease is not None

    @property
    def incarnation(self) -> int:
        """The number of this process among the nodes of a shared journal; 0 where it is alone."""
        lease = self._backend.lease
        return 0 if lease is None else lease.incarnation

    @property
    def lease_seconds(self) -> float:
        """How much longer this process may write to destinations without asking; infinite where it is alone."""
        lease = self._backend.lease
        return math.inf if lease is None else lease.seconds_left

    @property
    def leads(self) -> bool:
        """Whether this process does what only one node does."""
        lease = self._backend.lease
        return lease is None or lease.leads

    @property
    def away(self) -> bool:
        """Whether its database cannot be reached, so that nothing new is accepted."""
        lease = self._backend.lease
        return lease is not None and lease.away

    @property
    def refused(self) -> str:
        """What its database called a statement that it refused in the last 15 minutes; '' where there was none."""
        return self._writer.refused

    @property
    def counts(self) -> tuple[int, int]:
        """How many commits there were since the start, and how many jobs they made durable."""
        return self._writer.counts

    async def record(self, entry: NewEntry) -> Recorded:
        """Record a message; DiskReserveError where there is no room, JournalError where it is not stored."""
        recorded = cast(Recorded, await self._group.submit(JobKind.RECORD, entry))
        self.newest = max(self.newest, recorded.seq)
        return recorded

    def acknowledged(self, seq: int, outcome: AckOutcome) -> None:
        """Note what became of an acknowledgement; stored with the next settlement, at most 0.2 s later."""
        self._group.acknowledged(seq, outcome)

    async def claim(
        self, destination: str, limit: int, now: datetime, *, least_tried: bool = False, run: bool = False
    ) -> tuple[Claimed, ...]:
        """Return up to `limit` deliveries that may run now, oldest first, each heading all its lanes.

        `run`: those in the order of the feed, each to be sent after the one before it. `least_tried`: of those tried
        least; looks at all that wait, which is for probes now and then.
        """
        if limit < 1:
            return ()
        work = partial(Claims.claim, destination=destination, limit=limit, now=now, least_tried=least_tried, run=run)
        return cast("tuple[Claimed, ...]", await self._group.submit(JobKind.CLAIM, work))

    async def ask(self, destination: str, limit: int, now: datetime, supply: Supply, *, run: bool = False) -> None:
        """Claim up to `limit` deliveries, those that may run now and the rest as they come, without asking again.

        `supply` is called with each part, and how many more will come. That ends once the limit is reached, or the
        destination asks anew or gives something back. `run`: as of `claim`.
        """
        self._group.supply[destination] = supply
        await self._group.submit(
            JobKind.CLAIM, partial(Claims.ask, destination=destination, limit=limit, now=now, run=run)
        )

    async def claim_behind(self, head: Claimed, wanted: Sequence[Claimed]) -> tuple[Claimed, ...]:
        """Claim what comes next in a claimed delivery's lane, all of it or nothing."""
        work = partial(Claims.claim_behind, head=head, wanted=wanted)
        return cast("tuple[Claimed, ...]", await self._group.submit(JobKind.CLAIM, work))

    async def intend(self, seq: int, destination: str, intent: HttpRequest) -> None:
        """Write what is about to be sent; ForbiddenMoveError where the delivery is not claimed."""
        await self._group.submit(JobKind.INTEND, (seq, destination, intent))

    async def settle(self, settlement: Settlement, *, may_wait: bool = False) -> int:
        """Write how a delivery ended; return how many others may run because of it.

        `may_wait`: nobody waits for it, so that it is written together with others, some 10 ms later.
        ForbiddenMoveError where the delivery is not claimed or the move is not in the table.
        """
        if may_wait:
            return await self._group.settle(settlement)
        return cast(int, await self._group.submit(JobKind.SETTLE, settlement))

    async def give_back(self, destination: str, seqs: Sequence[int]) -> None:
        """Let go of deliveries that were claimed and not begun; they may be claimed again."""
        await self.act(lambda context: context.claims.give_back(destination, seqs))

    async def put_back(self, destination: str, seqs: Sequence[int]) -> None:
        """Let go of deliveries that are claimed behind another one of their lane."""
        await self.act(lambda context: context.claims.put_back(destination, seqs))

    async def next_due(self, destination: str) -> datetime | None:
        """Return when the next retry falls due; None where none is waited for."""
        return await self.look(lambda context: context.claims.next_due(destination))

    async def act(self, work: Callable[[WriterContext], _T]) -> _T:
        """Call work with the writer's context, in a transaction; as `write`."""
        return cast(_T, await self._group.submit(JobKind.ACT, work))

    async def look(self, work: Callable[[WriterContext], _T]) -> _T:
        """Call work that only reads with the writer's context; as `read`."""
        return cast(_T, await self._group.submit(JobKind.LOOK, work))

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Call work on the writing connection, in a transaction; return what it returns once that is durable.

        It may be called again after others spoiled the transaction. An error of its own undoes what it did.
        """
        return await self.act(lambda context: work(context.connection))

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Call work that only reads on the writing connection, where it sees all that was written before."""
        return await self.look(lambda context: work(context.connection))

    def leave(self) -> None:
        """Wait no longer than ten seconds from now on for room or a database that is away: the engine is to stop."""
        self._writer.leave()

    async def close(self) -> None:
        """Write what waits, move it all into the file, and give the folder back; a second call does nothing."""
        if self._group.closed:
            return
        if not self.failed:
            self._group.flush()
            closing = self._group.submit(JobKind.CLOSE, None)
            self._group.closed = True
            await asyncio.gather(closing, return_exceptions=True)
        self._group.closed = True
        await asyncio.to_thread(self._writer.thread.join)
        self._lock.release()

    def _put(self, jobs: list[WriterJob]) -> None:
        self._writer.put(jobs)


def _node_backend(shared: SharedJournal, put: Callable[[list[WriterJob]], None]) -> JournalBackend:
    """Return the backend of a shared journal; its driver is loaded only where it is used."""
    nodes = importlib.import_module("engine.journal.nodes.backend")
    return cast(JournalBackend, nodes.backend_of(shared, configured(), put))
