"""The store: many readers, one writer, one SQLite file."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

from engine.database.connection import Connection
from engine.database.dialect import SQLITE
from engine.database.sqlite import SqliteConnection, SqliteError
from engine.interchange.store.access import PENDING
from engine.interchange.store.connection import Lock, connect, prepare
from engine.interchange.store.deadline import DEADLINE, NEVER, STEPS, passed
from engine.interchange.store.indexing import bring_up_to
from engine.interchange.store.transaction import NOBODY, Indexer, Stored, Told, Transaction
from engine.interchange.store.writer import Writer

T = TypeVar("T")

ADD_TENANT: Final = "INSERT INTO tenant (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
TENANTS: Final = "SELECT name, number FROM tenant"
ADD_SECRET: Final = "INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"  # noqa: S105 - SQL
SECRET: Final = "SELECT value FROM secret WHERE name = ?"  # noqa: S105 - SQL


class Store:
    """What the service keeps. Reads see the last commit; a write answers when its commit is on disk.

    `alone` false: a command beside a running service, which writes a row or two. `edition` is that of the search
    parameters; resources that were indexed by another one are indexed again first. `told` are those who learn of
    each write, in its transaction; `ring` is called once a commit has owed an event to anybody.
    StartError: the file cannot be used, another service uses it, or it belongs to another environment.
    """

    def __init__(
        self,
        path: Path,
        tenants: Iterable[str],
        clock: Callable[[], datetime],
        indexers: Mapping[str, Indexer],
        *,
        alone: bool = True,
        environment: str = "",
        edition: str = "",
        told: Told = NOBODY,
    ) -> None:
        self._lock = Lock(path) if alone else None
        self._path = path
        self._clock = clock
        self._indexers = indexers
        self._told = told
        self.ring: Callable[[], None] = lambda: None
        self._local = threading.local()
        self._readers: list[SqliteConnection] = []
        self._numbers: dict[str, int] = {}
        try:
            prepare(path, environment)
            self.number(tenants)
            if edition:
                self._index(edition)
            self._writer = Writer(path)
        except BaseException:
            self._unlock()
            raise

    @property
    def failed(self) -> bool:
        """Whether an I/O error has ended all writing."""
        return self._writer.failed

    @property
    def commits(self) -> tuple[int, int]:
        """How many commits there were since the start, and how many writes were in them."""
        return self._writer.commits, self._writer.writes

    def read(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one snapshot, in the calling thread; TimeoutError once the request's deadline has passed."""
        connection = self.reader()
        connection.execute(SQLITE.reading)
        self._local.until = DEADLINE.get()
        try:
            return work(self._transaction(connection, tenant))
        except SqliteError as error:
            if passed(self._local.until):
                raise TimeoutError from error
            raise
        finally:
            self._local.until = NEVER
            connection.execute("COMMIT")

    def find(self, tenant: str, type_name: str, resource_id: str) -> Stored | None:
        """Return a resource by its id, as `Transaction.get` does: one statement, which is a snapshot by itself."""
        return self._transaction(self.reader(), tenant).get(type_name, resource_id)

    async def write(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` alone and atomically; its result comes back once it is on disk, its error undoes it.

        The first one of a request that is recorded carries its row of the access log.
        """
        pending = PENDING.get()
        owed: list[bool] = []

        def recorded(connection: Connection) -> T:
            transaction = self._transaction(connection, tenant)
            result = work(transaction)
            if pending is not None:
                pending.keep(connection, transaction.touched)
            owed.append(transaction.owed)
            return result

        result = await self._writer.write(recorded)
        if any(owed):
            self.ring()
        return result

    async def write_raw(self, work: Callable[[Connection], T]) -> T:
        """As `write`, for tables that belong to no tenant."""
        return await self._writer.write(work)

    def hand_over(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Begin what `write_raw` waits for."""
        return self._writer.write(work)

    def reader(self) -> SqliteConnection:
        """Return the calling thread's connection for reading."""
        connection: SqliteConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self._path, reading=True)
            self._local.connection = connection
            self._local.until = NEVER
            connection.set_progress_handler(lambda: passed(self._local.until), STEPS)
            self._readers.append(connection)
        return connection

    def close(self) -> None:
        """Finish the writes that wait, then let the file go."""
        self._writer.close()
        for connection in self._readers:
            connection.close()
        self._unlock()

    def number(self, tenants: Iterable[str]) -> None:
        """Know these tenants from now on; those that the file knows keep their numbers."""
        connection = connect(self._path)
        try:
            connection.executemany(ADD_TENANT, [(name,) for name in tenants])
            self._numbers = dict(connection.execute(TENANTS).fetchall())
        finally:
            connection.close()

    def secret(self, name: str, new: bytes) -> bytes:
        """Return a secret of the service; the first process to ask makes it `new`, all others get that."""
        connection = connect(self._path)
        try:
            connection.execute(ADD_SECRET, (name, new))
            return bytes(connection.execute(SECRET, (name,)).fetchone()[0])
        finally:
            connection.close()

    def _index(self, edition: str) -> None:
        connection = connect(self._path)
        try:
            bring_up_to(edition, connection, self._indexers)
        finally:
            connection.close()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _transaction(self, connection: Connection, tenant: str) -> Transaction:
        return Transaction(connection, self._numbers[tenant], self._clock(), self._indexers, self._told)
