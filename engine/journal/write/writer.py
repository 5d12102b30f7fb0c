"""The writer: one thread that owns the connection, and commits what waits as one transaction.

Whatever waits when a commit returns goes into the next one, at most 64 messages; no message waits for a clock. The
event loop is woken once a batch. After an I/O error nothing is written any more: a later sync could lie. A full disk
is no such error, nor is a database that is away: new messages are refused, and what was accepted waits.

What is answered and not yet durable (transactions.py) is committed at the latest after 50 ms without work.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final

from engine.database.connection import refusal_of
from engine.errors import DiskReserveError, JournalError, JournalFailedError, JournalRefusedError, LeaseLostError
from engine.journal.write.backend import JournalBackend, RecoveryAction
from engine.journal.write.job import JobKind, Result, WriterJob

MOST_MESSAGES: Final = 64
MOST_JOBS: Final = 256
IDLE_SECONDS: Final = 0.05
# How often a batch is tried that another node's got in the way of.
MOST_AGAIN: Final = 5
# Between two tries to write on a disk that stays full, or to a database that stays away.
PAUSE_SECONDS: Final = 0.2
# How long after the last time a refused statement is still reported.
REFUSED_SECONDS: Final = 900.0
# How long an engine that is to stop waits for room, or for a database that is away: it may never come.
LEAVE_SECONDS: Final = 10.0


class JournalWriter:
    """Carries jobs out in its own thread.

    `answer` and `failed` are called in that thread: the first with the results of a transaction once it is durable,
    the second once, with what made the writer stop; jobs that still wait are answered with that as well.
    """

    def __init__(
        self, backend: JournalBackend, answer: Callable[[list[Result]], None], failed: Callable[[BaseException], None]
    ) -> None:
        self._backend = backend
        self._answer = answer
        self._failed = failed
        self._inbox: SimpleQueue[list[WriterJob]] = SimpleQueue()
        self._waiting: deque[WriterJob] = deque()
        self._under_way: list[WriterJob] = []
        self._times = 0
        self._leaves_at = math.inf
        self._refused = ("", -math.inf)
        self.thread = threading.Thread(target=self._live, name="journal", daemon=True)

    @property
    def counts(self) -> tuple[int, int]:
        """How many commits there were since the start, and how many jobs they made durable."""
        return self._transactions.commits, self._transactions.jobs

    @property
    def refused(self) -> str:
        """What the database called the last statement that it refused; '' where that is 15 minutes ago, or never was.

        May be asked in any thread.
        """
        code, at = self._refused
        return code if time.monotonic() - at < REFUSED_SECONDS else ""

    def put(self, jobs: list[WriterJob]) -> None:
        """Hand jobs over; may be called from any thread."""
        self._inbox.put(jobs)

    def leave(self) -> None:
        """Wait for room or a database no longer than a while from now on; may be called from any thread.

        After that the writer stops as after a failure, and the next start takes up what was not written.
        """
        self._leaves_at = min(self._leaves_at, time.monotonic() + LEAVE_SECONDS)

    def _live(self) -> None:
        try:
            self._transactions = self._backend.open()
        except BaseException as error:  # noqa: BLE001 - handed to the caller that opens the journal
            self._failed(error)
            return
        self._answer([])
        try:
            while self._work():
                pass
        except BaseException as error:  # noqa: BLE001 - fail-stop: whatever it was, nothing is written any more
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        stopped = error if isinstance(error, LeaseLostError) else JournalFailedError()
        if stopped is not error:
            stopped.__cause__ = error
        self._backend.stop()
        self._backend.abandon()
        self._failed(stopped)
        self._collect(block=False)
        self._answer([(job, None, stopped) for job in (*self._under_way, *self._waiting)])
        self._waiting.clear()

    def _work(self) -> bool:
        self._collect(block=not self._waiting)
        batch = self._under_way = self._batch()
        if batch and batch[-1].kind is JobKind.CLOSE:
            self._run(batch[:-1])
            self._close(batch[-1])
            return False
        self._run(batch)
        self._backend.look_after()
        return True

    def _close(self, closing: WriterJob) -> None:
        self._backend.stop()
        self._backend.close()
        unwritten = JournalError("the journal was closed before it could be written")
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
                self._backend.commit()

    def _batch(self) -> list[WriterJob]:
        """Take what fits into one transaction, in order of arrival; CLOSE ends it."""
        batch: list[WriterJob] = []
        messages = 0
        while self._waiting and len(batch) < MOST_JOBS:
            kind = self._waiting[0].kind
            messages += kind is JobKind.RECORD
            if messages > MOST_MESSAGES:
                break
            batch.append(self._waiting.popleft())
            if kind is JobKind.CLOSE:
                break
        return batch

    def _run(self, batch: list[WriterJob]) -> None:
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
        self._times = 0
        self._answer(results)

    def _admit(self, batch: list[WriterJob]) -> tuple[list[WriterJob], list[Result]]:
        size = sum(len(one.argument.raw) for one in batch if one.kind is JobKind.RECORD)
        if not size:
            return batch, []
        try:
            self._backend.admit(size)
        except DiskReserveError as error:
            refused: list[Result] = [(one, None, error) for one in batch if one.kind is JobKind.RECORD]
            return [one for one in batch if one.kind is not JobKind.RECORD], refused
        return batch, []

    def _spoiled(self, batch: list[WriterJob], error: Exception) -> None:
        action = self._backend.recovery(error)
        match action:
            case RecoveryAction.END:
                raise error
            case RecoveryAction.DOUBT:
                self._decide(batch)
            case RecoveryAction.AGAIN if self._times < MOST_AGAIN:
                self._times += 1
                self._waiting.extendleft(reversed(batch))
            case RecoveryAction.ITS_OWN | RecoveryAction.AGAIN:
                if len(batch) == 1:
                    self._answer([(batch[0], None, self._failure_of(batch[0], error))])
                else:
                    for job in batch:
                        self._run([job])
            case _:
                self._refuse_new(batch, action, error)

    def _failure_of(self, job: WriterJob, error: Exception) -> Exception:
        """Return the exception that a job's future gets, and remember a statement that was refused."""
        code = refusal_of(error)
        if code or job.future is None:
            # Nobody waits for a job without a future: the alert alone reports its failure.
            self._refused = (code or type(error).__name__, time.monotonic())
        if not code:
            return error
        refused = JournalRefusedError(code)
        refused.__cause__ = error
        return refused

    def _refuse_new(self, batch: list[WriterJob], action: RecoveryAction, error: Exception) -> None:
        """Refuse what is new; what was accepted before is tried until there is a lock, room or a database."""
        refusal = self._backend.refusal(action)
        refusal.__cause__ = error
        self._answer([(one, None, refusal) for one in batch if one.kind is JobKind.RECORD])
        self._waiting.extendleft(one for one in reversed(batch) if one.kind is not JobKind.RECORD)
        self._times += 1
        if self._has_left():
            raise error
        if action is RecoveryAction.FULL:
            self._backend.make_room(self._times)
            if self._times > 2:
                time.sleep(PAUSE_SECONDS)
        elif action is RecoveryAction.AWAY:
            self._wait_for_it()

    def _wait_for_it(self) -> None:
        """Wait for a database that is away, and refuse what is new meanwhile."""
        while True:
            time.sleep(PAUSE_SECONDS)
            try:
                self._backend.come_back()
            except Exception as error:
                action = self._backend.recovery(error)
                if action is not RecoveryAction.AWAY:
                    raise
                self._refuse_waiting(error)
                if self._closes():
                    raise
            else:
                return

    def _has_left(self) -> bool:
        return time.monotonic() > self._leaves_at

    def _closes(self) -> bool:
        return self._has_left() or any(job.kind is JobKind.CLOSE for job in (*self._under_way, *self._waiting))

    def _refuse_waiting(self, error: Exception) -> None:
        self._collect(block=False)
        refusal = self._backend.refusal(RecoveryAction.AWAY)
        refusal.__cause__ = error
        self._answer([(job, None, refusal) for job in self._waiting if job.kind is JobKind.RECORD])
        self._waiting = deque(job for job in self._waiting if job.kind is not JobKind.RECORD)

    def _decide(self, batch: list[WriterJob]) -> None:
        """Ask until it is known whether a batch was committed; answer it, or try it again."""
        while True:
            try:
                results = self._transactions.decided()
                break
            except Exception as error:
                action = self._backend.recovery(error)
                if action not in {RecoveryAction.AWAY, RecoveryAction.DOUBT}:
                    raise
                self._refuse_waiting(error)
                if self._closes():
                    raise
            time.sleep(PAUSE_SECONDS)
        if results is None:
            self._waiting.extendleft(reversed(batch))
        else:
            self._times = 0
            self._answer(results)
