"""A database as the store uses it: a file of SQLite, or PostgreSQL, which several processes may serve from at once."""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Final, Protocol, TypeVar

from engine.database.connection import Connection
from engine.interchange.store.writer import StoreWriter

T = TypeVar("T")

# Until when the reads of the request at hand may go on, by time.monotonic(); its threads have it too.
DEADLINE: Final[ContextVar[float]] = ContextVar("deadline", default=math.inf)
NEVER: Final = math.inf


class StoreReader(Protocol):
    """One thread's reader; statements are in SQLite's dialect."""

    @property
    def connection(self) -> Connection:
        """A connection that refuses writes; each statement outside `read` is a snapshot by itself."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one snapshot; TimeoutError once the request's deadline (`DEADLINE`) has passed."""

    def close(self) -> None:
        """Close the connection."""


class StoreBackend(Protocol):
    """A database of the store."""

    @property
    def shared(self) -> bool:
        """Whether other processes may change it too, so that a cache must check for changes."""

    def claim(self) -> None:
        """Take the right to be the only service, where there may be only one; StartError where another has it."""

    def release(self) -> None:
        """Give the right back."""

    def prepare(self, environment: str) -> None:
        """Bring its tables up to date.

        It belongs to the first `environment` that is named; StartError for any other, where it cannot be used, where it
        is another program's, and where a newer program has changed its tables.
        """

    def reader(self) -> StoreReader:
        """Return a reader for one thread."""

    def changing(self) -> AbstractContextManager[Connection]:
        """Return a connection that changes a row or two outside the writer, each statement by itself."""

    def index(self, work: Callable[[Connection, str], None]) -> None:
        """Run `work`, which rebuilds index rows, while no other process does; its text begins a transaction."""

    def writer(self, edition: str, *, serves: bool) -> StoreWriter:
        """Return the writer, begun.

        `edition` is that of the search parameters by which it makes index rows, '' for a command. One that `serves`
        asks for the lock of what only one process does.
        """


def set_deadline(seconds: float) -> None:
    """Give the reads of the request at hand some seconds from now."""
    DEADLINE.set(time.monotonic() + seconds)


def passed(deadline: float) -> bool:
    """Return whether a deadline has passed."""
    return time.monotonic() > deadline
