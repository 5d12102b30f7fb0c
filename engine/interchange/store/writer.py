"""The writer: one thread, one connection, many writes to a commit; an answer comes only after the commit."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from engine import fault
from engine.database.connection import Connection
from engine.database.dialect import SQLITE
from engine.database.sqlite import SqliteError, is_busy, is_disk_error
from engine.errors import ServiceError
from engine.interchange.store.connection import connect, shrink

T = TypeVar("T")
Work = Callable[[Connection], Any]

BATCH: Final = 64
# Beyond this the writer waits for readers to leave the write-ahead log; below, it is reused without a wait.
LOG_BYTES: Final = 64 * 1024 * 1024
LOG_WAIT_MS: Final = 250


class StoreFailedError(ServiceError):
    """The store met an I/O error and takes no more writes; restart the service once the disk is well."""


class StoreBusyError(StoreFailedError):
    """Another process kept the database for ten seconds; try again."""


@dataclass(slots=True, eq=False)
class _Job:
    work: Work
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Runs writes one after the other, each in its savepoint; up to 64 that wait share one commit."""

    def __init__(self, path: Path) -> None:
        self.failed = False
        self.commits = 0
        self.writes = 0
        # None wakes the thread when it is to end.
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._closing = False
        self._connection = connect(path)
        self._log = Path(f"{path}-wal")
        self._log_limit = LOG_BYTES
        # What a killed process wrote is on the disk before anybody is told of it.
        shrink(self._connection, LOG_WAIT_MS)
        self._thread = threading.Thread(target=self._run, name="interchange-writer", daemon=True)
        self._thread.start()

    def write(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Run `work` in a transaction; its result comes once it is on disk, its error undoes only its own writes.

        StoreFailedError: the disk has failed before, or the store is closing.
        """
        if self.failed or self._closing:
            raise StoreFailedError
        loop = asyncio.get_running_loop()
        job = _Job(work, loop, loop.create_future())
        self._waiting.put(job)
        return job.future

    def close(self) -> None:
        """Finish what waits, then end the thread and its connection."""
        self._closing = True
        self._waiting.put(None)
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while batch := self._take():
            self._commit(batch)
            size = self._log_size(batch)
            _tell(batch)
            self._bound_log(size)

    def _take(self) -> list[_Job]:
        """Wait for a job and return it with those behind it; nothing once the writer is closed, and all is done."""
        batch: list[_Job] = []
        job = self._waiting.get()
        while job is not None:
            batch.append(job)
            if len(batch) == BATCH:
                return batch
            try:
                job = self._waiting.get_nowait()
            except Empty:
                return batch
        # What wakes the thread to its end comes last: it is for the next turn, if this one has work.
        if batch:
            self._waiting.put(None)
        return batch

    def _commit(self, batch: list[_Job]) -> None:
        try:
            self._check()
            self._connection.execute(SQLITE.writing)
            for job in batch:
                self._do(job)
            fault.point("F28")
            self._connection.execute("COMMIT")
            self.commits += 1
            self.writes += len(batch)
            fault.point("F29")
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody knows what is on the disk, nor is told it is
            # A lock is waited for before anything is written.
            self.failed = self.failed or not is_busy(error)
            _blame(batch, StoreFailedError if self.failed else StoreBusyError, error)
            self._undo()

    def _do(self, job: _Job) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:  # a fault in one request must not take the others of its commit along
            if is_disk_error(error):
                raise
            job.error = error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")

    def _check(self) -> None:
        if self.failed:
            raise StoreFailedError

    def _log_size(self, batch: list[_Job]) -> int:
        """Return the bytes of the write-ahead log; without it nothing that was committed is sure of its disk."""
        try:
            return self._log.stat().st_size
        except OSError as error:
            self.failed = True
            _blame(batch, StoreFailedError, error)
            return 0

    def _bound_log(self, size: int) -> None:
        if size < self._log_limit:
            return
        try:
            done = shrink(self._connection, LOG_WAIT_MS)
        except SqliteError:
            self.failed = True
            return
        self._log_limit = LOG_BYTES if done else size + LOG_BYTES // 4

    def _undo(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except SqliteError:
            return


def _blame(batch: list[_Job], kind: type[StoreFailedError], error: Exception) -> None:
    for job in batch:
        job.error = kind()
        job.error.__cause__ = error


def _tell(batch: list[_Job]) -> None:
    """Wake each loop once for all of its jobs."""
    for loop in {job.loop for job in batch}:
        mine = [job for job in batch if job.loop is loop]
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
