"""The journal as the event loop sees it: every call returns once what it wrote is durable.

A message is recorded with its lanes and acknowledgement, claimed when it heads its lanes, announced by an intent before
each write, and settled. All of it goes through one writer thread (writer.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import orjson

from engine.errors import JournalError
from engine.fhir.request import Request
from engine.journal.entry import AckOutcome, Claimed, KnownIdentity, NewEntry, Recorded, Settlement
from engine.journal.file.lock import FolderLock
from engine.journal.file.reserve import DiskReserve
from engine.journal.file.sealing import configured
from engine.journal.moment import to_micros
from engine.journal.state import memory
from engine.journal.write.job import Job, Kind, Result, Rooms, acknowledge
from engine.journal.write.operations import Asked
from engine.journal.write.writer import Writer
from engine.sqlite import Connection

LAZY_SECONDS: Final = 0.2
# What is gathered goes to the writer once so many turns of the loop added nothing, or all of it is enough. Turns are
# not time: an idle loop takes them at once, a busy one fills them with work that joins the same commit.
QUIET_TURNS: Final = 3
TURNS: Final = 64
ENOUGH: Final = 128

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
    ) -> None:
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._fail = fail
        self._failure: BaseException | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._closed = False
        self._gathered: list[Job] = []
        self._kicked = False
        self._writing = False
        self._turns = 0
        self._quiet = 0
        self._seen = 0
        self._acknowledged: dict[AckOutcome, list[int]] = {}
        self._sent: list[tuple[int, int]] = []
        self._lazy: asyncio.TimerHandle | None = None
        self._lock = FolderLock(folder)
        try:
            reserve = DiskReserve(folder, reserve_bytes)
            self._writer = Writer(folder, reserve, self._hand_back, self._stopped, configured())
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
    ) -> "Journal":
        """Open the journal of a data folder that exists.

        `fail` is called on the event loop when the journal stops for good. `reserve_bytes`: free bytes below which
        nothing new is accepted; None for 5 % of the disk, at most 512 MiB. JournalUnusableError says what to mend.
        """
        journal = cls(folder, clock, fail, reserve_bytes)
        journal._writer.thread.start()
        try:
            await journal._opened
        except BaseException:
            journal._lock.release()
            raise
        return journal

    @property
    def failed(self) -> bool:
        """Say whether the journal has stopped because of an I/O error."""
        return self._failure is not None

    @property
    def counts(self) -> tuple[int, int]:
        """How many commits there were since the start, and how many operations they made durable."""
        return self._writer.commits, self._writer.operations

    async def record(self, entry: NewEntry) -> Recorded:
        """Record a message; DiskReserveError where there is no room, JournalError where it is not stored."""
        return cast(Recorded, await self._submit(Kind.RECORD, entry))

    def acknowledged(self, seq: int, outcome: AckOutcome) -> None:
        """Note what became of an acknowledgement; stored with the next commit, at most 0.2 s later."""
        if self._failure is not None or self._closed:
            return
        self._acknowledged.setdefault(outcome, []).append(seq)
        if outcome is AckOutcome.SENT:
            self._sent.append((seq, to_micros(self._clock())))
        if self._lazy is None:
            self._lazy = self._loop.call_later(LAZY_SECONDS, self._flush)

    async def claim(
        self, destination: str, limit: int, now: datetime, *, least_tried: bool = False
    ) -> tuple[Claimed, ...]:
        """Return up to `limit` deliveries that may run now, oldest first, each heading all its lanes.

        `least_tried`: of those tried least; looks at all that wait, which is for probes now and then.
        """
        if limit < 1:
            return ()
        return cast("tuple[Claimed, ...]", await self._submit(Kind.CLAIM, (destination, limit, now, least_tried)))

    async def intend(self, seq: int, destination: str, intent: Request) -> None:
        """Write what is about to be sent; ForbiddenMoveError where the delivery is not claimed."""
        await self._submit(Kind.INTEND, (seq, destination, intent))

    async def settle(self, settlement: Settlement) -> int:
        """Write how a delivery ended; return how many others may run because of it.

        ForbiddenMoveError where the delivery is not claimed or the move is not in the table.
        """
        return cast(int, await self._submit(Kind.SETTLE, settlement))

    async def give_back(self, destination: str, seqs: Sequence[int]) -> None:
        """Let go of deliveries that were claimed and not begun; they may be claimed again."""
        await self._act(lambda rooms: rooms.claims.give_back(destination, seqs))

    async def next_due(self, destination: str) -> datetime | None:
        """Return when the next retry falls due; None where none is waited for."""
        return cast("datetime | None", await self._look(lambda rooms: rooms.claims.next_due(destination)))

    async def known(
        self, destination: str, identities: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], KnownIdentity]:
        """Return what is known of identifiers (system, value); those never seen are left out."""
        work = partial(_sealed, memory.known, destination, tuple(identities))
        return cast("dict[tuple[str, str], KnownIdentity]", await self._look(work))

    async def owned(self, destination: str, resource: str, source: str) -> dict[str, tuple[str, ...]]:
        """Return the digests a source last wrote to a resource, by slice; empty where there is no record."""
        work = partial(_sealed, memory.owned, destination, resource, source)
        return cast("dict[str, tuple[str, ...]]", await self._look(work))

    async def claimed(self, destination: str, resource: str, source: str) -> frozenset[str]:
        """Return the digests of all that other sources than this one say of a resource."""
        work = partial(_sealed, memory.claimed, destination, resource, source)
        return cast("frozenset[str]", await self._look(work))

    async def behind(self, destination: str, lanes: Sequence[int], seq: int, most: int) -> list[tuple[str, bytes]]:
        """Return channel and bytes of at most `most` entries that wait behind one in its lanes, oldest first."""
        work = partial(_sealed, memory.behind, destination, tuple(lanes), seq, most)
        return cast("list[tuple[str, bytes]]", await self._look(work))

    async def merged(self, destination: str, source_key: str, survivor_key: str) -> bool:
        """Say whether a destination has carried out the merge of these keys (`system|value`)."""
        return cast(bool, await self._look(partial(_sealed, memory.merged, destination, source_key, survivor_key)))

    async def last_applied(self, destination: str, lanes: Sequence[int], source: str) -> datetime | None:
        """Return the newest event time applied in any of the lanes from that source; None where there is none."""
        work = partial(_on_connection, memory.last_applied, destination, tuple(lanes), source)
        return cast("datetime | None", await self._look(work))

    async def replay(
        self,
        seq: int,
        *,
        force: bool = False,
        destinations: tuple[str, ...] = (),
        by: str = "",
        at: datetime | None = None,
        give: tuple[str, ...] = (),
    ) -> int:
        """Deliver an entry again in its old place; return at how many destinations.

        `give`: those to which it is given where it never was before. ForbiddenMoveError: under way, never delivered,
        or something newer was applied and `force` is not set.
        """
        asked = Asked(by, at, force=force)
        return await self.act(lambda rooms: rooms.operations.replay(seq, destinations, asked, give))

    async def release(
        self,
        seq: int,
        *,
        force: bool = False,
        destinations: tuple[str, ...] = (),
        by: str = "",
        at: datetime | None = None,
    ) -> int:
        """Let what is held of an entry be tried again; return at how many destinations."""
        asked = Asked(by, at, force=force)
        return await self.act(lambda rooms: rooms.operations.release(seq, destinations, asked))

    async def discard(self, seq: int, reason: str, by: str) -> int:
        """End what is unfinished of an entry for good; return how many others may run because of it."""
        return cast(int, await self._act(lambda rooms: rooms.operations.discard(seq, reason, by=by)))

    async def act(self, work: Callable[[Rooms], _T]) -> _T:
        """Call work with the rooms of the writer, in a transaction; as `write`."""
        return cast(_T, await self._act(work))

    async def write(self, work: Callable[[Connection], _T]) -> _T:
        """Call work on the writing connection, in a transaction; return what it returns once that is durable.

        It may be called again after others spoiled the transaction. An error of its own undoes what it did.
        """
        return cast(_T, await self._act(lambda rooms: work(rooms.connection)))

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Call work that only reads on the writing connection, where it sees all that was written before."""
        return cast(_T, await self._look(lambda rooms: work(rooms.connection)))

    async def close(self) -> None:
        """Write what waits, move it all into the file, and give the folder back; a second call does nothing."""
        if self._closed:
            return
        failed = self._failure is not None
        if not failed:
            self._flush()
            closing = self._submit(Kind.CLOSE, None)
            self._closed = True
            await asyncio.gather(closing, return_exceptions=True)
        self._closed = True
        await self._loop.run_in_executor(None, self._writer.thread.join)
        self._lock.release()

    def _look(self, work: Callable[[Rooms], Any]) -> "asyncio.Future[Any]":
        return self._submit(Kind.LOOK, work)

    def _act(self, work: Callable[[Rooms], Any]) -> "asyncio.Future[Any]":
        return self._submit(Kind.ACT, work)

    def _submit(self, kind: Kind, argument: Any) -> "asyncio.Future[Any]":
        """Gather an operation; what is gathered while the writer is at work goes to it together, as its next commit."""
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise JournalError("the journal is closed")
        future = self._loop.create_future()
        self._gathered.append(Job(kind, argument, future))
        self._kick_soon()
        return future

    def _flush(self) -> None:
        self._lazy = None
        if self._acknowledged:
            self._kick_soon()

    def _kick_soon(self) -> None:
        """Hand over in a later turn of the loop, so that whoever is woken in this one can join."""
        if not self._kicked and not self._writing:
            self._kicked = True
            self._loop.call_soon(self._kick)

    def _kick(self) -> None:
        if self._joined():
            self._loop.call_soon(self._kick)
            return
        self._kicked = False
        gathered, self._gathered = self._gathered, []
        if self._acknowledged:
            outcomes = {outcome: orjson.dumps(seqs).decode() for outcome, seqs in self._acknowledged.items()}
            sent = orjson.dumps(self._sent).decode()
            self._acknowledged, self._sent = {}, []
            gathered.insert(0, Job(Kind.LOOK, partial(acknowledge, outcomes=outcomes, sent=sent), None))
            if self._lazy is not None:
                self._lazy.cancel()
                self._lazy = None
        if self._failure is not None:
            self._resolve([(operation, None, self._failure) for operation in gathered])
        else:
            self._writing = True
            self._writer.put(gathered)

    def _joined(self) -> bool:
        """Say whether to wait one more turn of the loop for operations that would join this commit."""
        count = len(self._gathered)
        self._quiet = self._quiet + 1 if count == self._seen else 0
        self._seen = count
        self._turns += 1
        if self._quiet < QUIET_TURNS and self._turns < TURNS and count < ENOUGH:
            return True
        self._turns = self._quiet = self._seen = 0
        return False

    def _hand_back(self, results: list[Result]) -> None:
        self._to_loop(self._resolve, results)

    def _stopped(self, error: BaseException) -> None:
        self._to_loop(self._give_up, error)

    def _to_loop(self, work: Callable[[Any], None], argument: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(work, argument)
        except RuntimeError:
            """The loop is closed: nobody waits any more."""

    def _resolve(self, results: list[Result]) -> None:
        if not self._opened.done():
            self._opened.set_result(None)
        for (_kind, _argument, future), value, error in results:
            if future is None or future.done():
                continue
            if error is None:
                future.set_result(value)
            else:
                future.set_exception(error)
        self._writing = False
        if self._gathered or (self._acknowledged and self._lazy is None):
            self._kick_soon()

    def _give_up(self, error: BaseException) -> None:
        if not self._opened.done():
            self._opened.set_exception(error)
            return
        self._failure = error
        self._fail(error)


def _sealed(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call `work(connection, sealing, ...)`; the writer gives the rooms as the last argument."""
    *others, rooms = arguments
    return work(rooms.connection, rooms.sealing, *others)


def _on_connection(work: Callable[..., Any], *arguments: Any) -> Any:
    """Call `work(connection, ...)`; the writer gives the rooms as the last argument."""
    *others, rooms = arguments
    return work(rooms.connection, *others)
