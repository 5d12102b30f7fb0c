"""The store: many readers and one writer, on a SQLite file of its own or a PostgreSQL that others may use too."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, TypeVar

from engine.database.connection import Connection
from engine.interchange.store.access import PENDING
from engine.interchange.store.backend import StoreReader
from engine.interchange.store.indexing import bring_up_to
from engine.interchange.store.place import Place, backend_of
from engine.interchange.store.transaction import NOBODY, ChangeListeners, Indexer, StoredVersion, Transaction

T = TypeVar("T")

ADD_TENANT: Final = "INSERT INTO tenant (name) VALUES (?) ON CONFLICT (name) DO NOTHING"
TENANTS: Final = "SELECT name, number FROM tenant"
ADD_SECRET: Final = "INSERT INTO secret (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"  # noqa: S105 - SQL
SECRET: Final = "SELECT value FROM secret WHERE name = ?"  # noqa: S105 - SQL


class Store:
    """The service's database. Reads see the last commit; a write answers when its commit is on disk.

    `alone` false: a command next to a running service, which writes a row or two. `edition` is that of the search
    parameters; resources that were indexed by another one are indexed again first. `listeners` are notified of each
    write, in its transaction; `notify` is called once a commit has queued an event for a subscriber.
    StartError: the database cannot be used, another service uses the file, or it belongs to another environment.
    """

    def __init__(
        self,
        place: Place,
        tenants: Iterable[str],
        clock: Callable[[], datetime],
        indexers: Mapping[str, Indexer],
        *,
        alone: bool = True,
        environment: str = "",
        edition: str = "",
        listeners: ChangeListeners = NOBODY,
    ) -> None:
        self._backend = backend_of(place)
        self._clock = clock
        self._indexers = indexers
        self._listeners = listeners
        self.notify: Callable[[], None] = lambda: None
        self._local = threading.local()
        self._readers: list[StoreReader] = []
        self._numbers: dict[str, int] = {}
        if alone:
            self._backend.claim()
        try:
            self._backend.prepare(environment)
            self.number(tenants)
            if edition:
                self._backend.index(lambda connection, begin: bring_up_to(edition, connection, indexers, begin))
            self._writer = self._backend.writer(edition, serves=alone)
        except BaseException:
            self._backend.release()
            raise

    @property
    def shared(self) -> bool:
        """Whether other services may change the database, so that a cache must check for changes."""
        return self._backend.shared

    @property
    def away(self) -> bool:
        """Whether the database cannot be reached at present."""
        return self._writer.away

    @property
    def term(self) -> int:
        """0 where another process does what only one does, else a number that stays as long as this one may do it."""
        return self._writer.term

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
        return self._reader().read(lambda connection: work(self._transaction(connection, tenant)))

    def find(self, tenant: str, type_name: str, resource_id: str) -> StoredVersion | None:
        """Return a resource by its id, as `Transaction.get` does: one statement, which is a snapshot by itself."""
        return self._transaction(self.reader(), tenant).get(type_name, resource_id)

    async def write(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Run `work` alone and atomically; return its result once it is on disk; an error undoes it.

        The first one of a request that is recorded carries its row of the access log.
        """
        pending = PENDING.get()
        queued: list[bool] = []

        def recorded(connection: Connection) -> T:
            transaction = self._transaction(connection, tenant)
            result = work(transaction)
            if pending is not None:
                pending.keep(connection, transaction.touched)
            queued.append(transaction.queued)
            return result

        result = await self._writer.write(recorded)
        if any(queued):
            self.notify()
        return result

    async def write_raw(self, work: Callable[[Connection], T]) -> T:
        """As `write`, for tables that belong to no tenant."""
        return await self._writer.write(work)

    def hand_over(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Begin what `write_raw` waits for."""
        return self._writer.write(work)

    def reader(self) -> Connection:
        """Return the calling thread's connection for reading."""
        return self._reader().connection

    def close(self) -> None:
        """Finish the waiting writes, then close the database."""
        self._writer.close()
        for reader in self._readers:
            reader.close()
        self._backend.release()

    def number(self, tenants: Iterable[str]) -> None:
        """Add these tenants; those in the database keep their numbers."""
        with self._backend.changing() as connection:
            connection.executemany(ADD_TENANT, [(name,) for name in tenants])
            self._numbers = dict(connection.execute(TENANTS).fetchall())

    def secret(self, name: str, new: bytes) -> bytes:
        """Return a secret of the service; the first process to ask makes it `new`, all others get that."""
        with self._backend.changing() as connection:
            connection.execute(ADD_SECRET, (name, new))
            return bytes(connection.execute(SECRET, (name,)).fetchone()[0])

    def _reader(self) -> StoreReader:
        reader: StoreReader | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._backend.reader()
            self._readers.append(reader)
        return reader

    def _transaction(self, connection: Connection, tenant: str) -> Transaction:
        return Transaction(connection, self._numbers[tenant], self._clock(), self._indexers, self._listeners)
