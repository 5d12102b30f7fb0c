"""A database as the store uses it: a file of SQLite, or PostgreSQL, which several processes may serve from at once."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from engine.database.connection import Connection
from engine.interchange.store.writer import StoreWriter

T = TypeVar("T")


class StoreReader(Protocol):
    """One thread's way to read; texts are in SQLite's words."""

    @property
    def connection(self) -> Connection:
        """A connection that refuses writes; each statement outside `read` is a snapshot by itself."""

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one snapshot; TimeoutError once the request's deadline (`DEADLINE`) has passed."""

    def close(self) -> None:
        """Let the connection go."""


class Backend(Protocol):
    """A database of the store."""

    @property
    def shared(self) -> bool:
        """Whether other processes may change it beside this one, so that nothing may be kept in memory unasked."""

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
        """Return a way to read for one thread."""

    def changing(self) -> AbstractContextManager[Connection]:
        """Return a connection that changes a row or two outside the writer, each statement by itself."""

    def index(self, work: Callable[[Connection, str], None]) -> None:
        """Run `work`, which makes index rows anew, while no other process does; it gets what begins a transaction."""

    def writer(self, edition: str, *, serves: bool) -> StoreWriter:
        """Return the writer, begun.

        `edition` is that of the search parameters by which it makes index rows, '' for a command. One that `serves`
        asks for the right to do what only one process does.
        """
