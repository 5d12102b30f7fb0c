"""The service's PostgreSQL database, from which several processes may serve at once."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from time import monotonic
from typing import Any, Final, TypeVar

from engine.database.connection import Connection, Cursor
from engine.database.postgresql import PostgresqlConnection, PostgresqlError, connect, is_late, is_lost
from engine.errors import StartError
from engine.interchange.store.backend import DEADLINE, NEVER, passed
from engine.interchange.store.postgresql_steps import INDEX_LOCK, NAME, SESSION, WRITING, missing, prepare
from engine.interchange.store.postgresql_writer import PostgresqlWriter
from engine.interchange.store.writer import StoreAwayError

T = TypeVar("T")

READING: Final = f"{SESSION} -c default_transaction_read_only=on"
# A snapshot, and how long each of its statements may take, in one round trip.
SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = {}"
# Threads that find the server gone do not each wait for it.
REST_SECONDS: Final = 0.5


class PostgresqlReader:
    """One thread's connection for reading, made when it is first needed and anew after it was lost.

    StoreAwayError while the database cannot be reached.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._inner: PostgresqlConnection | None = None
        self._until = NEVER
        self._rest_until = 0.0

    @property
    def connection(self) -> Connection:
        """The connection, which is this object."""
        return self

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one snapshot; TimeoutError once the request's deadline has passed."""
        until = DEADLINE.get()
        left_ms = 0 if until == NEVER else max(1, int((until - monotonic()) * 1000))
        self.execute(SNAPSHOT.format(left_ms))
        self._until = until
        try:
            return work(self)
        finally:
            self._until = NEVER
            self._finish()

    @property
    def in_transaction(self) -> bool:
        """Whether a snapshot is open."""
        return self._inner is not None and self._inner.in_transaction

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Cursor:
        """Run a query; outside a snapshot once more, if the connection was lost since the last one."""
        return self._ask(lambda inner: inner.execute(sql, values))

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        """Refuse: a reader changes nothing."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connection."""
        if self._inner is not None:
            self._inner.close()

    def _ask(self, query: Callable[[PostgresqlConnection], Cursor]) -> Cursor:
        if passed(self._until):
            raise TimeoutError
        inner = self._open()
        whole = not inner.in_transaction
        try:
            return query(inner)
        except PostgresqlError as error:
            if is_late(error):
                raise TimeoutError from error
            if not is_lost(error):
                raise
            self._drop()
            if not whole:
                raise StoreAwayError from error
        try:
            return query(self._open())
        except PostgresqlError as error:
            if not is_lost(error):
                raise
            self._drop()
            raise StoreAwayError from error

    def _open(self) -> PostgresqlConnection:
        if self._inner is None:
            if monotonic() < self._rest_until:
                raise StoreAwayError
            try:
                self._inner = connect(self._address, name=NAME, options=READING)
            except PostgresqlError as error:
                self._rest_until = monotonic() + REST_SECONDS
                raise StoreAwayError from error
        return self._inner

    def _drop(self) -> None:
        if self._inner is not None:
            self._inner.close()
            self._inner = None

    def _finish(self) -> None:
        """End a snapshot; a connection that fails at it has none any more."""
        if self._inner is None:
            return
        try:
            self._inner.execute("COMMIT")
        except PostgresqlError:
            self._drop()


def open_known(address: str, shown: str) -> PostgresqlReader:
    """Return a connection for reading a database that exists; StartError where this program did not make it."""
    if missing(address, shown):
        raise StartError(f"the database {shown} is empty, or an older adt-engine's: start the service on it once")
    return PostgresqlReader(address)


class PostgresqlBackend:
    """The `StoreBackend` on PostgreSQL; `shown` is its address for logs and messages."""

    shared = True

    def __init__(self, address: str, shown: str) -> None:
        self._address = address
        self._shown = shown

    def claim(self) -> None:
        """Take nothing: there may be several services."""

    def release(self) -> None:
        """Give nothing back."""

    def prepare(self, environment: str) -> None:
        """Make the tables, or bring them up to date."""
        prepare(self._address, self._shown, environment)

    def reader(self) -> PostgresqlReader:
        """Return a way to read for one thread."""
        return PostgresqlReader(self._address)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Return a connection for a row or two; unique indexes resolve conflicts."""
        with closing(connect(self._address, name=NAME, options=SESSION)) as connection:
            yield connection

    def index(self, work: Callable[[Connection, str], None]) -> None:
        """Run `work` while no other process does it; one that waits finds it done."""
        with closing(connect(self._address, name=NAME, options="-c jit=off")) as connection:
            connection.execute(f"SELECT pg_advisory_lock({INDEX_LOCK})")
            work(connection, WRITING)

    def writer(self, edition: str, *, serves: bool) -> PostgresqlWriter:
        """Return the writer, begun."""
        return PostgresqlWriter(self._address, edition, serves=serves)
