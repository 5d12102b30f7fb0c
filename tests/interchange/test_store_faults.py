"""The store and its disk: full, slow readers, strange files, other processes, newer programs."""

import asyncio
import contextlib
import errno
import os
import resource
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest
from sqlite_utils import Database

from engine.database import sqlite
from engine.errors import StartError
from engine.interchange.store import sqlite as store_sqlite
from engine.interchange.store.schema import STEPS, migrations
from engine.interchange.store.sqlite import SETTINGS, connect, prepare
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.writer import StoreBusyError
from tests.interchange.kit import patient
from tests.interchange.lives import opened, until_refused, write
from tests.interchange.process import started
from tests.interchange.test_process import CONFIGURATION, client

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    found = opened(tmp_path)
    yield found
    found.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A folder that may become a small disk, where the system lets us."""
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(tmp_path)]
    with contextlib.suppress(OSError):
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return tmp_path
    pytest.skip("no mount namespaces here")


def test_a_vanished_log_ends_all_writing(store: Store, tmp_path: Path) -> None:
    """Somebody removes the write-ahead log under the running service: no answer claims a disk that is not there."""
    assert asyncio.run(write(store, 1)) == "p1"
    next(tmp_path.glob("*-wal")).unlink()
    for number in (2, 3):
        assert asyncio.run(asyncio.wait_for(write(store, number), 5)) == ""
    assert store.failed


def test_a_full_disk_ends_all_writing_and_loses_nothing(small_disk: Path) -> None:
    """On a full disk nothing more is answered, reading goes on; with room again all that was answered is there."""
    life = f"{sys.executable} -m tests.interchange.lives {small_disk}"
    script = f"mount -t tmpfs -o size=8m tmpfs {small_disk} && {life}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answered, kept, check, failed, again, readable, later = done.stdout.split()
    assert int(answered) > 100
    assert (kept, check) == (answered, "ok")
    assert (failed, again, readable, later) == ("True", "False", "True", "p300000")


class FullAtCommit:
    """The writer's connection, on a disk that is found full when the log is written: by COMMIT."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *values: Any) -> Any:
        """Carry a statement out; a COMMIT fails, and leaves its transaction open."""
        if sql == "COMMIT":
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._connection.execute(sql, *values)


def test_a_commit_that_finds_the_disk_full_answers_nothing(store: Store) -> None:
    """Room is missed at the commit: of all writes that share it none is answered, and none is there."""

    async def together() -> list[str]:
        return await asyncio.gather(*(write(store, number) for number in (1, 2, 3)))

    connection = store._writer._connection
    store._writer._connection = FullAtCommit(connection)
    try:
        assert asyncio.run(together()) == ["", "", ""]
    finally:
        store._writer._connection = connection
    assert store.failed
    assert store.read("t", lambda inner: [inner.get("Patient", f"p{number}") for number in (1, 2, 3)]) == [None] * 3


def test_a_disk_that_refuses_is_told_of(tmp_path: Path) -> None:
    """A write that the disk refuses is not answered, readiness says so, and a new start has all that was answered.

    What cannot be recorded is not shown either.
    """
    kept: list[Any] = []
    with started(tmp_path, CONFIGURATION) as process, client(process.url) as http:
        headers = dict(http.headers)
        psutil.Process(process.run.pid).rlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
        for number in range(2000):
            answer = http.post(
                "/fhir/R4/Patient", content=orjson.dumps(patient(name=[{"family": f"F{number}", "given": ["G"]}]))
            )
            if answer.status_code != 201:
                break
            kept.append(answer.json())
        assert answer.status_code == 500
        assert answer.json()["resourceType"] == "OperationOutcome"
        assert http.get("/readyz").status_code == 503
        assert http.get(f"/fhir/R4/Patient/{kept[-1]['id']}").status_code == 500
    with (
        started(tmp_path, CONFIGURATION) as process,
        httpx.Client(base_url=process.url, headers=headers, trust_env=False) as http,
    ):
        assert [http.get(f"/fhir/R4/Patient/{one['id']}").json() for one in kept] == kept
        assert http.get("/fhir/R4/Patient?_count=0").json()["total"] == len(kept)


def test_a_fault_in_a_statement_is_not_the_disk(store: Store) -> None:
    """A statement that SQLite does not take fails its own request; the store goes on."""

    def wrong(inner: Transaction) -> None:
        inner.create("Patient", "half", patient())
        inner.connection.execute("SELECT one FROM nowhere")

    with pytest.raises(Exception, match="nowhere"):
        asyncio.run(store.write("t", wrong))
    assert not store.failed
    assert asyncio.run(write(store, 1)) == "p1"
    assert store.read("t", lambda inner: inner.get("Patient", "half")) is None


def test_another_writer_is_waited_for(store: Store, tmp_path: Path) -> None:
    """While another process holds the database a write is refused, undone; when it is gone writing goes on."""
    other = connect(tmp_path / "s.db")
    other.execute("BEGIN IMMEDIATE")
    store._writer._connection.execute("PRAGMA busy_timeout=50")
    with pytest.raises(StoreBusyError):
        asyncio.run(store.write("t", lambda inner: inner.create("Patient", "p1", patient())))
    other.execute("ROLLBACK")
    other.close()
    assert not store.failed
    assert asyncio.run(write(store, 1)) == "p1"


def test_the_log_is_bounded_under_constant_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers that follow each other without a gap do not let the write-ahead log grow for ever."""
    monkeypatch.setattr(store_sqlite, "LOG_BYTES", 500_000)
    store = opened(tmp_path)
    ended = threading.Event()
    steps = [threading.Event(), threading.Event()]
    steps[0].set()

    def read(own: threading.Event, next_one: threading.Event) -> None:
        reader = connect(tmp_path / "s.db", reading=True)
        while not ended.is_set():
            own.wait(5)
            own.clear()
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM resource").fetchone()
            next_one.set()
            ended.wait(0.01)
            own.wait(0.01)
            reader.execute("COMMIT")
        next_one.set()
        reader.close()

    async def some(first: int) -> list[str]:
        return await asyncio.gather(*(write(store, first + number) for number in range(20)))

    threads = [threading.Thread(target=read, args=(steps[n], steps[1 - n])) for n in range(2)]
    for thread in threads:
        thread.start()
    try:
        sizes = []
        for first in range(0, 1200, 20):
            assert len(asyncio.run(some(first))) == 20
            sizes.append((tmp_path / "s.db-wal").stat().st_size)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        store.close()
    assert max(sizes) < 2_000_000, sizes[::6]


async def test_an_answer_comes_after_its_commit(store: Store, tmp_path: Path) -> None:
    """What is answered is seen by every other connection at that moment; writes that wait together share commits."""
    reader = connect(tmp_path / "s.db", reading=True)
    before = store.commits

    async def one(number: int) -> int:
        await write(store, number)
        return int(reader.execute("SELECT count(*) FROM resource WHERE id=?", (f"p{number}",)).fetchone()[0])

    assert await asyncio.gather(*(one(number) for number in range(200))) == [1] * 200
    commits, writes = (after - earlier for after, earlier in zip(store.commits, before, strict=True))
    assert writes == 200
    assert 4 <= commits <= 8
    reader.close()


def test_files_are_their_owner_s(store: Store, tmp_path: Path) -> None:
    """Database, log, shared memory and lock can be read by their owner only."""
    asyncio.run(write(store, 1))
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("s.db", "s.db-wal", "s.db-shm", "s.db.lock"), 0o600)


def test_a_second_service_is_told_of_the_first(store: Store, tmp_path: Path) -> None:
    """The refusal names the process that has the database, and touches nothing of it."""
    with pytest.raises(StartError, match=rf"process {os.getpid()}\).*s\.db: stop it"):
        opened(tmp_path)
    assert asyncio.run(write(store, 1)) == "p1"


def test_a_database_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    """A file with a step that this program does not know is refused with its name, and left as it is."""
    store = opened(tmp_path)
    asyncio.run(until_refused(store, 20))
    store.close()
    plain = sqlite3.connect(tmp_path / "s.db")
    plain.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('interchange', 'of_tomorrow', '')"
    )
    plain.commit()
    with pytest.raises(StartError, match=r"newer adt-engine \(step of_tomorrow\)"):
        opened(tmp_path)
    assert plain.execute("SELECT count(*) FROM resource").fetchone() == (20,)
    plain.execute("DELETE FROM _sqlite_migrations WHERE name='of_tomorrow'")
    plain.commit()
    plain.close()
    opened(tmp_path).close()


def test_an_older_database_is_brought_up_to_date(tmp_path: Path) -> None:
    """A file of an earlier program keeps its tokens and references, takes the steps that it lacks, each once."""
    path = tmp_path / "s.db"
    older = connect(path)
    migrations.apply(Database(older), stop_before="references")
    older.execute("INSERT INTO reference_index (key, target, tenant) VALUES (1, 'Patient/p1', 1)")
    older.execute("INSERT INTO token VALUES (x'00', 'access', 1, 'engine', 'user/.', '2025-06-01', 1, 0)")
    older.close()
    for _ in range(2):
        opened(tmp_path).close()
    newer = connect(path, reading=True)
    assert newer.execute("SELECT key, parameter, target, tenant FROM reference_index").fetchall() == [
        (1, "", "Patient/p1", 1)
    ]
    assert newer.execute("SELECT client, login FROM token").fetchall() == [("engine", "")]
    assert [one.name for one in migrations.applied(Database(newer))] == list(STEPS)
    newer.close()


def test_every_connection_has_the_settings(store: Store) -> None:
    """Connections that write and that read have every setting that durability needs."""
    for connection in (store.reader(), store._writer._connection):
        found = [(name, connection.execute(f"PRAGMA {name}").fetchone()[0]) for name, _, _ in SETTINGS]
        assert found == [(name, expected) for name, _, expected in SETTINGS]


def test_an_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that can corrupt a file makes none."""
    monkeypatch.setattr(sqlite, "OLDEST", (99, 0, 0))
    with pytest.raises(StartError, match="can corrupt a database"):
        prepare(tmp_path / "s.db")
    assert not (tmp_path / "s.db").exists()


def test_a_setting_that_is_not_taken_is_told(tmp_path: Path) -> None:
    """A file that cannot have a write-ahead log is refused: nothing is kept less safely than is said."""
    with pytest.raises(StartError, match="journal_mode=WAL"):
        connect(Path(":memory:"))
