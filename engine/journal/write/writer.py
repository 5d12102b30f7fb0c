"""The writer: one thread that owns the connection, and commits what waits as one transaction.

Whatever waits when a commit returns goes into the next one, at most 64 messages; no message waits for a clock. The
event loop is woken once a batch. After an I/O error nothing is written any more: a later sync could lie. A full disk
is no such error: new messages are refused, and what was accepted waits for room.

Claims, reads and acknowledgement outcomes need not be durable to be answered: a batch of nothing else leaves its
transaction open, and the next commit takes it along, at the latest after 50 ms without work.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from engine import fault
from engine.errors import DiskReserveError, JournalError, JournalFailedError
from engine.journal.claim.claiming import Claims
from engine.journal.claim.lanes import Lanes
from engine.journal.file.database import LOG_PAGES, PAGE_BYTES, open_writer, shrink
from engine.journal.file.reserve import DiskReserve
from engine.journal.file.sealing import Sealing, sealing_of
from engine.journal.write.job import Job, Kind, Result, Rooms
from engine.journal.write.operations import Operations
from engine.journal.write.recording import Recording
from engine.journal.write.settling import Settling
from engine.sqlite import is_busy, is_disk_error, is_full

MOST_MESSAGES: Final = 64
MOST_OPERATIONS: Final = 256
IDLE_SECONDS: Final = 0.05
# Between two tries to write on a disk that stays full.
FULL_SECONDS: Final = 0.2

_LAZY: Final = frozenset({Kind.LOOK, Kind.CLAIM})


class Writer:
    """Carries operations out in its own thread.

    `answer` and `failed` are called in that thread: the first with the results of a transaction once it is durable,
    the second once, with what made the writer stop; operations that still wait are answered with that as well.
    `commits` and `operations` count since the start.
    """

    def __init__(
        self,
        folder: Path,
        reserve: DiskReserve,
        answer: Callable[[list[Result]], None],
        failed: Callable[[BaseException], None],
        key: bytes | None = None,
    ) -> None:
        self._folder = folder
        self._key = key
        self.sealing: Sealing | None = None
        self._reserve = reserve
        self._answer = answer
        self._failed = failed
        self._inbox: SimpleQueue[list[Job]] = SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._under_way: list[Job] = []
        self._rolled_back = False
        self._uncommitted: set[Kind] = set()
        self._times_full = 0
        self.commits = self.operations = 0
        self.thread = threading.Thread(target=self._live, name="journal", daemon=True)

    def put(self, operations: list[Job]) -> None:
        """Hand operations over; may be called from any thread."""
        self._inbox.put(operations)

    def _live(self) -> None:
        try:
            self._open_with_room()
        except BaseException as error:  # noqa: BLE001 - handed to whoever opens the journal
            self._failed(error)
            return
        self._answer([])
        try:
            while self._work():
                pass
        except BaseException as error:  # noqa: BLE001 - fail-stop: whatever it was, nothing is written any more
            self._stop(error)

    def _open_with_room(self) -> None:
        """Open the file; on a disk without room for that with what the reserve has."""
        try:
            self._open()
        except Exception as error:
            if not is_full(error.__cause__ or error):
                raise
            self._reserve.give_up()
            self._open()

    def _open(self) -> None:
        self._connection = connection = open_writer(self._folder, self._reserve.log_pages(PAGE_BYTES, LOG_PAGES))
        self.sealing = sealing = sealing_of(connection, self._key)
        self._claims = Claims(connection, sealing)
        self._lanes = Lanes(connection, self._claims.joined, sealing)
        self._recording = Recording(connection, self._lanes, sealing)
        self._settling = Settling(connection, self._claims, sealing)
        operations = Operations(connection, self._lanes, self._claims, self._recording, sealing)
        self._rooms = Rooms(connection, self._claims, operations, sealing)
        connection.execute("BEGIN IMMEDIATE")
        self._claims.recover()
        connection.execute("COMMIT")

    def _stop(self, error: BaseException) -> None:
        stopped = JournalFailedError()
        stopped.__cause__ = error
        self._failed(stopped)
        self._collect(block=False)
        self._answer([(operation, None, stopped) for operation in (*self._under_way, *self._waiting)])
        self._waiting.clear()

    def _work(self) -> bool:
        self._collect(block=not self._waiting)
        batch = self._under_way = self._batch()
        if batch and batch[-1].kind is Kind.CLOSE:
            self._run(batch[:-1])
            self._close(batch[-1])
            return False
        self._run(batch)
        return True

    def _close(self, closing: Job) -> None:
        """Move all into the file, as far as disk and readers let us; what could not be written says so."""
        self._tidy()
        self._connection.close()
        unwritten = JournalError("the journal was closed before the disk had room")
        self._answer([(operation, None, unwritten) for operation in self._waiting])
        self._answer([(closing, None, None)])

    def _collect(self, *, block: bool) -> None:
        try:
            if block:
                self._waiting.extend(self._inbox.get(timeout=IDLE_SECONDS if self._uncommitted else None))
            while True:
                self._waiting.extend(self._inbox.get_nowait())
        except Empty:
            if block and not self._waiting:
                self._while_full(self._commit)

    def _batch(self) -> list[Job]:
        """Take what fits into one transaction, in order of arrival; CLOSE ends it."""
        batch: list[Job] = []
        messages = 0
        while self._waiting and len(batch) < MOST_OPERATIONS:
            kind = self._waiting[0].kind
            messages += kind is Kind.RECORD
            if messages > MOST_MESSAGES:
                break
            batch.append(self._waiting.popleft())
            if kind is Kind.CLOSE:
                break
        return batch

    def _run(self, batch: list[Job]) -> None:
        """Carry a batch out in one transaction; if one operation spoils it, each in a transaction of its own."""
        batch, refused = self._admit(batch)
        if refused:
            self._answer(refused)
        if not batch:
            return
        try:
            results = self._transact(batch)
        except Exception as error:  # noqa: BLE001 - sorted out by what it is
            self._spoiled(batch, error)
            return
        self._answer(results)

    def _admit(self, batch: list[Job]) -> tuple[list[Job], list[Result]]:
        size = sum(len(one.argument.raw) for one in batch if one.kind is Kind.RECORD)
        if not size:
            return batch, []
        try:
            self._reserve.admit(size)
        except DiskReserveError as error:
            self._shrink_at_times()
            refused: list[Result] = [(one, None, error) for one in batch if one.kind is Kind.RECORD]
            return [one for one in batch if one.kind is not Kind.RECORD], refused
        return batch, []

    def _shrink_at_times(self) -> None:
        """Give the log's room back to a disk that is short of it, at most once a second."""
        if self._reserve.should_shrink():
            self._tidy()

    def _tidy(self) -> None:
        """Commit what is not yet durable and give the log's room back, if the disk has the room for that."""
        self._while_full(self._commit)
        self._while_full(lambda: shrink(self._connection))

    def _while_full(self, work: Callable[[], None]) -> None:
        """Do what can be left undone on a full disk: nothing that was answered hangs on it."""
        try:
            work()
        except Exception as error:
            if not is_full(error):
                raise
            self._roll_back()

    def _transact(self, batch: list[Job]) -> list[Result]:
        kinds = {operation.kind for operation in batch}
        try:
            if not self._connection.in_transaction:
                self._connection.execute("BEGIN IMMEDIATE")
            if self._rolled_back:
                self._lanes.forget()
                if self.sealing is not None:
                    self.sealing.forget()
                self._rolled_back = False
            results = self._carry_out(batch)
            self._uncommitted |= kinds
            self.operations += len(batch)
            if not kinds <= _LAZY:
                self._commit()
        except BaseException:
            self._roll_back()
            raise
        self._claims.confirmed()
        self._times_full = 0
        return results

    def _commit(self) -> None:
        """Make durable what is not yet; what strikes at the fault points after it stops the writer."""
        if not self._connection.in_transaction:
            return
        self._connection.execute("COMMIT")
        self.commits += 1
        kinds, self._uncommitted = self._uncommitted, set()
        if fault.armed():
            for kind, name in _AFTER_COMMIT:
                if kind in kinds:
                    self._stand(name)

    def _stand(self, name: str) -> None:
        try:
            fault.point(name)
        except Exception as error:
            raise JournalFailedError(f"struck at {name} after a commit") from error

    def _roll_back(self) -> None:
        """Undo a batch. Claims of earlier batches that were not durable are undone in the file only, not here."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._uncommitted = set()
        self._rolled_back = True
        self._claims.withdrawn()

    def _carry_out(self, batch: list[Job]) -> list[Result]:
        by_kind: tuple[list[Job], ...] = ([], [], [], [], [], [])
        for operation in batch:
            by_kind[operation.kind].append(operation)
        records, intents, settlements, acts, looks, claims = by_kind
        results: list[Result] = []
        if records:
            recorded = self._recording.record([one.argument for one in records])
            results.extend(zip(records, recorded, _NONE, strict=False))
            fault.point("F03")
        if intents:
            self._settling.intend([one.argument for one in intents])
            results.extend((one, None, None) for one in intents)
        if settlements:
            counts = self._settling.settle([one.argument for one in settlements])
            results.extend((one, count, None) for one, count in zip(settlements, counts, strict=True))
            fault.point("F15")
        results.extend((one, one.argument(self._rooms), None) for one in (*acts, *looks))
        if claims:
            results.extend((one, self._claims.claim(*one.argument), None) for one in claims)
            fault.point("F08")
        return results

    def _spoiled(self, batch: list[Job], error: Exception) -> None:
        if is_busy(error):
            self._busy(batch, error)
        elif is_full(error):
            self._full(batch, error)
        elif is_disk_error(error) or isinstance(error, JournalFailedError):
            raise error
        elif len(batch) == 1:
            self._answer([(batch[0], None, error)])
        else:
            for operation in batch:
                self._run([operation])

    def _busy(self, batch: list[Job], error: Exception) -> None:
        """Refuse what is new; what was accepted before is tried until the lock is free."""
        refusal = JournalError("another program holds the journal's lock: end it")
        refusal.__cause__ = error
        self._answer([(one, None, refusal) for one in batch if one.kind is Kind.RECORD])
        self._waiting.extendleft(one for one in reversed(batch) if one.kind is not Kind.RECORD)

    def _full(self, batch: list[Job], error: Exception) -> None:
        """Refuse what is new, and make room for the outcomes: first from the log, then from the reserve; then wait."""
        refusal = DiskReserveError()
        refusal.__cause__ = error
        self._answer([(one, None, refusal) for one in batch if one.kind is Kind.RECORD])
        self._waiting.extendleft(one for one in reversed(batch) if one.kind is not Kind.RECORD)
        self._times_full += 1
        if self._times_full == 2:
            self._reserve.give_up()
        self._tidy()
        if self._times_full > 2:
            time.sleep(FULL_SECONDS)


_NONE: Final = (None,) * MOST_MESSAGES

_AFTER_COMMIT: Final = ((Kind.RECORD, "F05"), (Kind.INTEND, "F11"), (Kind.SETTLE, "F17"), (Kind.CLAIM, "F09"))
