"""The store on PostgreSQL: what is refused at the start, commits whose answer was lost, and whose turn it is."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from typing import Any

import psycopg
import pytest

from engine.database import postgresql
from engine.database.postgresql import PostgresqlConnection, connect
from engine.errors import StartError
from engine.interchange.core.audit.recorder import verify_log
from engine.interchange.rest.patient.index import index_patient
from engine.interchange.store import postgresql_writer
from engine.interchange.store.access import AccessRow, append
from engine.interchange.store.backend import DEADLINE
from engine.interchange.store.place import open_known, place_of
from engine.interchange.store.postgresql_steps import ALL_STEPS
from engine.interchange.store.postgresql_writer import PostgresqlWriter
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.writer import StoreAwayError, StoreFailedError, StoreInDoubtError
from tests.interchange.kit import patient
from tests.interchange.parallel import together
from tests.postgresql import a_postgres, new_database

START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "hush-hush"
LOST = "server closed the connection unexpectedly"


def opened(database: str, **more: Any) -> Store:
    """Open a store."""
    return Store(place_of(database), ["t"], lambda: START, {"Patient": index_patient}, **more)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    """A store on a database of the test's own."""
    found = opened(database)
    yield found
    found.close()


def create(store: Store, name: str) -> None:
    """Keep a patient of an id."""
    asyncio.run(store.write("t", lambda inner: inner.create("Patient", name, patient())))


def there(store: Store, name: str) -> bool:
    """Say whether a patient is kept."""
    return store.find("t", "Patient", name) is not None


def writer_of(store: Store) -> PostgresqlWriter:
    """Return the writer of a store."""
    assert isinstance(store._writer, PostgresqlWriter)
    return store._writer


class Losing:
    """A connection that is lost at a commit: before it, after it, or with the server still at it."""

    def __init__(self, inner: PostgresqlConnection, when: str) -> None:
        self.inner = inner
        self.when = when
        self.late: threading.Thread | None = None

    @property
    def in_transaction(self) -> bool:
        """As of the connection."""
        return self.inner.in_transaction

    def execute(self, sql: str, *values: Any) -> Any:
        """Carry a statement out."""
        if "; COMMIT" not in sql:
            return self.inner.execute(sql, *values)
        if self.when == "after":
            self.inner.execute(sql)
        if self.when == "late":
            self.late = threading.Thread(target=self._late, args=(sql,))
            self.late.start()
        else:
            self.inner.close()
        raise psycopg.OperationalError(LOST)

    def together(self) -> contextlib.AbstractContextManager[object]:
        """As of the connection."""
        return self.inner.together()

    def executemany(self, sql: str, rows: Any) -> Any:
        """Carry a statement out for each of several rows."""
        return self.inner.executemany(sql, rows)

    def _late(self, sql: str) -> None:
        time.sleep(0.7)
        self.inner.execute(sql)
        self.inner.close()

    def close(self) -> None:
        """Leave it to whom it belongs."""


@pytest.mark.parametrize("when", ["after", "late"])
def test_a_commit_whose_answer_was_lost(store: Store, when: str) -> None:
    """What was committed is answered as done, also where the server was still at it; it is there once."""
    create(store, "first")
    writer = writer_of(store)
    assert writer._connection is not None
    losing = Losing(writer._connection, when)
    writer._connection = losing  # type: ignore[assignment] # as one for this purpose
    create(store, "second")
    assert there(store, "second")
    if losing.late is not None:
        losing.late.join()
    create(store, "third")
    assert store.commits == (3, 3)


def test_a_commit_that_was_not(store: Store) -> None:
    """A connection lost before the commit: the write is refused, nothing of it is there, and the next one is done."""
    create(store, "first")
    writer = writer_of(store)
    assert writer._connection is not None
    writer._connection = Losing(writer._connection, "before")  # type: ignore[assignment] # as above
    with pytest.raises(StoreAwayError) as told:
        create(store, "second")
    assert not isinstance(told.value, StoreInDoubtError)
    assert not there(store, "second")
    create(store, "third")
    assert there(store, "third")


def test_an_outcome_that_nobody_tells(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not come back in time leaves it open whether the write was done, and that is what is told."""
    create(store, "first")
    writer = writer_of(store)
    assert writer._connection is not None
    monkeypatch.setattr(postgresql_writer, "OUTCOME_SECONDS", 0.5)
    address = writer._address
    writer._connection = Losing(writer._connection, "before")  # type: ignore[assignment] # as above
    writer._address = "postgresql://nobody@127.0.0.1:1/none"
    with pytest.raises(StoreInDoubtError):
        create(store, "second")
    assert store.away
    assert store.term == 0
    writer._address = address
    until = time.monotonic() + 10
    while store.away or not store.term:
        assert time.monotonic() < until
        time.sleep(0.05)
    create(store, "third")


def test_one_of_two_does_what_only_one_may(database: str) -> None:
    """The right goes over once the first has closed, and comes back under another number."""
    first, second = opened(database), opened(database)
    assert (first.term, second.term) == (1, 0)
    first.close()
    until = time.monotonic() + 10
    while not second.term:
        assert time.monotonic() < until
        time.sleep(0.05)
    writer = writer_of(second)
    assert writer._connection is not None
    writer._connection.close()
    while second.term != 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    command = opened(database, alone=False)
    assert command.term == 0
    command.close()
    second.close()


def test_the_log_is_one_chain(database: str) -> None:
    """Rows of the access log that two processes add follow each other without a gap."""
    stores = [opened(database), opened(database)]
    row = AccessRow(0, "t", "c", "l", "r", "a", "q", "R4", "read", "Patient", "p", "p", "done", 200)

    def add(store: Store) -> None:
        for _ in range(50):
            asyncio.run(store.write_raw(lambda connection: append(connection, (row,))))

    together([lambda store=store: add(store) for store in stores])
    for store in stores:
        store.close()
    proof = verify_log(place_of(database))
    assert (proof.rows, proof.faults) == (100, ())


def test_processes_that_start_together(database: str) -> None:
    """Of eight that find an empty database one makes the tables, all serve from it, and they share one secret."""
    stores = together([lambda: opened(database, environment="sandbox", edition="e") for _ in range(8)])
    secrets = together([lambda one=one, n=n: one.secret("s", bytes([n])) for n, one in enumerate(stores)])
    assert len(set(secrets)) == 1
    assert sum(one.term for one in stores) == 1
    for one in stores:
        one.close()
    with contextlib.closing(connect(database)) as connection:
        steps = connection.execute("SELECT name FROM interchange_step").fetchall()
        assert sorted(name for (name,) in steps) == sorted(ALL_STEPS)
        assert connection.execute("SELECT count(*) FROM process_commit").fetchone() == (0,)


def test_steps_are_taken_once_each(database: str) -> None:
    """A database of an earlier program gets the steps that it lacks, and only those."""
    opened(database).close()
    with contextlib.closing(connect(database)) as connection:
        connection.execute("DROP TABLE message")
        connection.execute("DELETE FROM interchange_step WHERE name='messages'")
        with pytest.raises(StartError, match="an older adt-engine's: start the service on it once"):
            open_known(place_of(database))
        opened(database).close()
        assert connection.execute("SELECT count(*) FROM message").fetchone() == (0,)


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("CREATE TABLE entry (number INT)", r"is another program's: name another with --database"),
        ("CREATE VIEW entry AS SELECT 1", r"is another program's: name another with --database"),
        ("DROP SCHEMA public", r"has no schema for tables: CREATE SCHEMA"),
    ],
)
def test_other_databases_are_left_alone(database: str, made: str, told: str) -> None:
    """What another program has made is refused by name, and nothing is added to it."""
    with contextlib.closing(connect(database)) as connection:
        connection.execute(made)
        with pytest.raises(StartError, match=told):
            opened(database)
        tables = connection.execute("SELECT count(*) FROM pg_class WHERE relname='resource'").fetchone()
        assert tables == (0,)


def test_a_newer_database_is_refused(database: str) -> None:
    """A step that this program does not know is named."""
    opened(database).close()
    with contextlib.closing(connect(database)) as connection:
        connection.execute("INSERT INTO interchange_step (name) VALUES ('of_tomorrow')")
    for look in (lambda: opened(database), lambda: open_known(place_of(database))):
        with pytest.raises(StartError, match=r"newer adt-engine \(step of_tomorrow\)"):
            look()


def test_another_environment_is_refused(database: str) -> None:
    """A database of a sandbox is none of production."""
    opened(database, environment="sandbox").close()
    with pytest.raises(StartError, match=r"belongs to sandbox, and this is production: name another with --database"):
        opened(database, environment="production")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (("fsync=off",), "fsync is off.*set fsync = on"),
        (("synchronous_commit=off",), "synchronous_commit is off.*set it to on"),
        (("synchronous_commit=local", "synchronous_standby_names=far"), "synchronous_commit is local.*set it to on"),
    ],
)
def test_a_server_that_forgets_is_refused(settings: tuple[str, ...], told: str) -> None:
    """Settings under which an answered write may be lost are refused at the start, with what to set."""
    with a_postgres() as server:
        server.start(*settings)
        with pytest.raises(StartError, match=told):
            opened(server.address)


def test_an_old_server_is_refused(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that is too old is refused with the one that is needed."""
    monkeypatch.setattr(postgresql, "OLDEST", 99)
    with pytest.raises(StartError, match=r"PostgreSQL \d+ is too old: 99 or newer is needed"):
        opened(database)


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that nobody reaches is told of, by its address and what to mend, without a password."""
    monkeypatch.setenv("PGPASSWORD", SECRET)
    with pytest.raises(StartError, match=r"postgresql://nobody@127\.0\.0\.1:1/none .*refused.*: mend") as told:
        opened("postgresql://nobody@127.0.0.1:1/none?sslmode=disable")
    assert SECRET not in str(told.value)
    with pytest.raises(StartError, match="leave the password out") as told:
        place_of(f"postgresql://u:{SECRET}@h/d")
    assert SECRET not in str(told.value)


def test_another_edition_ends_an_older_process(database: str) -> None:
    """Once a newer program has indexed by other parameters, one that still runs writes nothing, and is not ready."""
    older = opened(database, edition="one")
    create(older, "first")
    newer = opened(database, edition="two")
    with pytest.raises(StoreFailedError):
        create(older, "second")
    assert older.failed
    assert not there(newer, "second")
    create(newer, "third")
    older.close()
    newer.close()


def test_a_slow_read_is_ended(store: Store) -> None:
    """A statement ends with the deadline of its request, and so does a row of short ones; the connection goes on."""
    token = DEADLINE.set(time.monotonic() + 0.3)
    try:
        with pytest.raises(TimeoutError):
            store.read("t", lambda inner: inner.connection.execute("SELECT pg_sleep(3600)"))
        DEADLINE.set(time.monotonic() + 0.3)
        with pytest.raises(TimeoutError):
            store.read("t", naps)
    finally:
        DEADLINE.reset(token)
    assert not there(store, "none")


def naps(inner: Transaction) -> None:
    """Ask for much in small pieces."""
    for _ in count():
        inner.connection.execute("SELECT pg_sleep(0.05)")


def test_a_reader_s_connection_is_made_anew(store: Store) -> None:
    """A connection that the server has ended is noticed by none who reads, but in the midst of a snapshot."""
    create(store, "first")
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=current_database() AND pid=?"

    def pid(inner: Transaction) -> int:
        return int(inner.connection.execute("SELECT pg_backend_pid()").fetchone()[0])

    with contextlib.closing(connect(writer_of(store)._address)) as other:
        other.execute(end, (store.read("t", pid),))
        assert there(store, "first")
        other.execute(end, (store.read("t", pid),))
        assert store.read("t", lambda inner: inner.get("Patient", "first")) is not None

        def cut(inner: Transaction) -> None:
            other.execute(end, (pid(inner),)).fetchall()
            inner.get("Patient", "first")

        with pytest.raises(StoreAwayError):
            store.read("t", cut)
    assert there(store, "first")


def test_readers_do_not_write(store: Store) -> None:
    """A reader's connection refuses writes."""
    with pytest.raises(StoreAwayError) as told:
        store.read("t", lambda inner: inner.connection.execute("DELETE FROM tenant"))
    assert isinstance(told.value.__cause__, psycopg.errors.ReadOnlySqlTransaction)


def test_options_of_an_address_count(postgres_server: str) -> None:
    """Settings in the address are kept beside our own: tables may be in any schema."""
    with new_database(postgres_server) as database:
        with contextlib.closing(connect(database)) as connection:
            connection.execute("CREATE SCHEMA cdis")
        opened(f"{database}&options=-csearch_path%3Dcdis").close()
        with contextlib.closing(connect(database)) as connection:
            place = "SELECT relnamespace::regnamespace::text FROM pg_class WHERE relname='resource'"
            assert connection.execute(place).fetchall() == [("cdis",)]
