"""The writer: one thread that owns the connection, and commits what waits as one transaction.

Whatever waits when a commit returns goes into the next one, at most 64 messages; no message waits for a clock. The
event loop is woken once a batch. After an I/O error nothing is written any more: a later sync could lie. A full disk
is no such error: new messages are refused, and what was accepted waits for room.

What is answered and not yet durable (transactions.py) is committed at the latest after 50 ms without work.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from engine.database.sqlite import is_busy, is_disk_error, is_full
from engine.errors import DiskReserveError, JournalError, JournalFailedError
from engine.journal.file.database import FILE, LOG_BYTES, move_log, open_writer, shrink
from engine.journal.file.reserve import DiskReserve
from engine.journal.write.checkpoint import Checkpointer
from engine.journal.write.job import Job, Kind, Result
from engine.journal.write.transactions import Transactions

MOST_MESSAGES: Final = 64
MOST_JOBS: Final = 256
IDLE_SECONDS: Final = 0.05
# Between two tries to write on a disk that stays full.
FULL_SECONDS: Final = 0.2


class Writer:
    """Carries jobs out in its own thread.

    `answer` and `failed` are called in that thread: the first with the results of a transaction once it is durable,
    the second once, with what made the writer stop; jobs that still wait are answered with that as well.
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
        self._reserve = reserve
        self._answer = answer
        self._failed = failed
        self._inbox: SimpleQueue[list[Job]] = SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._under_way: list[Job] = []
        self._times_full = 0
        self.thread = threading.Thread(target=self._live, name="journal", daemon=True)

    @property
    def counts(self) -> tuple[int, int]:
        """How many commits there were since the start, and how many jobs they made durable."""
        return self._transactions.commits, self._transactions.jobs

    def put(self, jobs: list[Job]) -> None:
        """Hand jobs over; may be called from any thread."""
        self._inbox.put(jobs)

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
        log_bytes = self._reserve.log_bytes(LOG_BYTES)
        self._transactions = Transactions(open_writer(self._folder, log_bytes), self._key)
        self._checkpointer = Checkpointer(self._folder / FILE, log_bytes // 2)
        self._checkpointer.start()

    def _stop(self, error: BaseException) -> None:
        stopped = JournalFailedError()
        stopped.__cause__ = error
        self._checkpointer.stop()
        self._failed(stopped)
        self._collect(block=False)
        self._answer([(job, None, stopped) for job in (*self._under_way, *self._waiting)])
        self._waiting.clear()

    def _work(self) -> bool:
        self._collect(block=not self._waiting)
        batch = self._under_way = self._batch()
        if batch and batch[-1].kind is Kind.CLOSE:
            self._run(batch[:-1])
            self._close(batch[-1])
            return False
        self._run(batch)
        if self._checkpointer.leaves_a_rest():
            self._while_full(self._move_rest)
        return True

    def _move_rest(self) -> None:
        """Move what was added to the log while the checkpointer moved the rest, so that it begins anew."""
        self._transactions.commit()
        move_log(self._transactions.connection)

    def _close(self, closing: Job) -> None:
        """Move all into the file, as far as disk and readers let us; what could not be written says so."""
        self._checkpointer.stop()
        self._tidy()
        self._transactions.connection.close()
        unwritten = JournalError("the journal was closed before the disk had room")
        self._answer([(job, None, unwritten) for job in self._waiting])
        self._answer([(closing, None, None)])

    def _collect(self, *, block: bool) -> None:
        try:
            if block:
                self._waiting.extend(self._inbox.get(timeout=IDLE_SECONDS if self._transactions.waiting else None))
            while True:
                self._waiting.extend(self._inbox.get_nowait())
        except Empty:
            if block and not self._waiting:
                self._while_full(self._transactions.commit)

    def _batch(self) -> list[Job]:
        """Take what fits into one transaction, in order of arrival; CLOSE ends it."""
        batch: list[Job] = []
        messages = 0
        while self._waiting and len(batch) < MOST_JOBS:
            kind = self._waiting[0].kind
            messages += kind is Kind.RECORD
            if messages > MOST_MESSAGES:
                break
            batch.append(self._waiting.popleft())
            if kind is Kind.CLOSE:
                break
        return batch

    def _run(self, batch: list[Job]) -> None:
        """Carry a batch out in one transaction; if one job spoils it, each in a transaction of its own."""
        batch, refused = self._admit(batch)
        if refused:
            self._answer(refused)
        if not batch:
            return
        try:
            results = self._transactions.carry_out(batch)
        except Exception as error:  # noqa: BLE001 - sorted out by what it is
            self._spoiled(batch, error)
            return
        self._times_full = 0
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
        self._while_full(self._transactions.commit)
        self._while_full(lambda: shrink(self._transactions.connection))

    def _while_full(self, work: Callable[[], None]) -> None:
        """Do what can be left undone on a full disk: nothing that was answered hangs on it."""
        try:
            work()
        except Exception as error:
            if not is_full(error):
                raise
            self._transactions.roll_back()

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
            for job in batch:
                self._run([job])

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
