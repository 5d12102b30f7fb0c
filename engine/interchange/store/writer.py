"""The writer: one thread, one connection, many writes to a commit; an answer comes only after the commit."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from engine.database.connection import Connection
from engine.errors import ServiceError

T = TypeVar("T")
Work = Callable[[Connection], Any]

BATCH: Final = 64


class StoreFailedError(ServiceError):
    """The store met an I/O error and takes no more writes; restart the service once the disk is well."""


class StoreBusyError(StoreFailedError):
    """Another process kept the database for ten seconds; try again."""


class StoreAwayError(StoreBusyError):
    """The database cannot be reached; nothing was changed; try again later."""


class StoreInDoubtError(StoreAwayError):
    """The database went away during a commit, and did not come back to say whether it was done."""


@dataclass(slots=True, eq=False)
class WriteJob:
    """One waiting write, with its outcome."""

    work: Work
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class StoreWriter(ABC):
    """Runs writes one after the other, each for itself; up to 64 that wait share one commit.

    `failed` once nothing is written any more, `away` while the database cannot be reached.
    """

    # How long the thread waits for a write before it checks its connection; None for ever.
    idle_seconds: float | None = None

    def __init__(self) -> None:
        self.failed = False
        self.away = False
        self.commits = 0
        self.writes = 0
        # None wakes the thread when it is to end.
        self._waiting: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="interchange-writer", daemon=True)

    @property
    def term(self) -> int:
        """0 where this process may not do what only one does, else another number each time that it gets this right."""
        return 1

    def write(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Run `work` in a transaction; its result comes once it is on disk, its error undoes only its own writes.

        StoreFailedError: the disk has failed before, or the store is closing.
        """
        if self.failed or self._closing:
            raise StoreFailedError
        loop = asyncio.get_running_loop()
        job = WriteJob(work, loop, loop.create_future())
        self._waiting.put(job)
        return job.future

    def close(self) -> None:
        """Finish what waits, then end the thread and its connection."""
        self._closing = True
        self._waiting.put(None)
        self._thread.join()
        self._end()

    @abstractmethod
    def _carry_out(self, batch: list[WriteJob]) -> None:
        """Commit some writes together, and wake their waiters."""

    @abstractmethod
    def _end(self) -> None:
        """Close the connection."""

    @abstractmethod
    def _idle(self) -> None:
        """Check the connection, each time that nothing was written for `idle_seconds`."""

    def _run(self) -> None:
        while batch := self._take():
            self._carry_out(batch)

    def _take(self) -> list[WriteJob]:
        """Wait for a job and return it with those behind it; nothing once the writer is closed, and all is done."""
        batch: list[WriteJob] = []
        job = self._next()
        while job is not None:
            batch.append(job)
            if len(batch) == BATCH:
                return batch
            try:
                job = self._waiting.get_nowait()
            except Empty:
                return batch
        # The end signal comes last: with work in this round, it is for the next one.
        if batch:
            self._waiting.put(None)
        return batch

    def _next(self) -> WriteJob | None:
        while True:
            try:
                return self._waiting.get(timeout=self.idle_seconds)
            except Empty:
                self._idle()


def blame(batch: list[WriteJob], kind: type[StoreFailedError], error: BaseException | None) -> None:
    """Fail all writes of a commit."""
    for job in batch:
        job.error = kind()
        job.error.__cause__ = error


def wake(batch: list[WriteJob]) -> None:
    """Wake each loop once for all of its jobs."""
    for loop in {job.loop for job in batch}:
        mine = [job for job in batch if job.loop is loop]
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, mine)


def _resolve(jobs: list[WriteJob]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)
