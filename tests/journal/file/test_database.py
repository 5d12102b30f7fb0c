"""Opening: settings that are read back, and everything that makes a folder unusable."""

import contextlib
import fcntl
import os
import re
import signal
import sqlite3 as oracle
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from sqlite_utils import Database
from sqlite_utils.utils import OperationalError

from engine.database import sqlite
from engine.errors import JournalUnusableError
from engine.journal.entry import FollowUpKind, FollowUpRequest
from engine.journal.file import schema, tables
from engine.journal.file.database import FILE, open_reader, open_writer
from engine.journal.read.reading import Reader
from engine.journal.state import follow_ups
from engine.journal.state.follow_ups import FollowUpEnd, FollowUpState
from engine.journal.write import duplicates
from tests.journal.desk import NOW, Desk, Opener, intent

DURABLE = {
    "journal_mode": "wal",
    "synchronous": 2,
    "mmap_size": 0,
    "foreign_keys": 1,
    "trusted_schema": 0,
    "cell_size_check": 1,
    "secure_delete": 1,
    "busy_timeout": 5000,
    "wal_autocheckpoint": 32_768,  # 64 MiB
    "fullfsync": 1,
}


def test_a_journal_with_larger_pages_keeps_them_and_the_length_of_its_log(tmp_path: Path) -> None:
    """What an older version made with pages of 4 KiB is opened as it is; its log is moved at the same size."""
    with contextlib.closing(oracle.connect(tmp_path / "journal.db")) as older:
        older.execute("PRAGMA page_size = 4096")
        older.execute("VACUUM")
    with contextlib.closing(open_writer(tmp_path)) as connection:
        found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "wal_autocheckpoint")]
    assert found == [4096, 16_384]


def test_the_writer_has_every_setting_of_durability(tmp_path: Path) -> None:
    """What durability asks for is what the connection says of itself."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        found = {name: connection.execute(f"PRAGMA {name}").fetchone()[0] for name in DURABLE}
    assert found == DURABLE


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    """Neither by intent nor by mistake."""
    open_writer(tmp_path).close()
    with (
        contextlib.closing(open_reader(tmp_path)) as connection,
        pytest.raises(OperationalError, match="write"),
    ):
        connection.execute("DELETE FROM entry")


def test_an_old_sqlite_is_refused_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that can corrupt a file opens none."""
    monkeypatch.setattr(sqlite, "OLDEST", (99, 0, 0))
    with pytest.raises(JournalUnusableError, match=r"99\.0\.0 or newer is needed: pip install"):
        open_writer(tmp_path)
    assert not (tmp_path / FILE).exists()


async def test_a_second_writer_is_refused_by_name(desk: Desk, opened: Opener) -> None:
    """Two engines never write one folder."""
    with pytest.raises(JournalUnusableError, match=f"process {os.getpid()}"):
        async with opened():
            pass
    assert await desk.record("1", ("s|1",))


async def test_a_second_writer_is_refused_though_somebody_removed_the_lock_file(desk: Desk, opened: Opener) -> None:
    """The lock is on the folder, too; the first one goes on, and gives it back at its end."""
    (desk.folder / "journal.lock").unlink()
    for _time in range(2):
        with pytest.raises(JournalUnusableError, match="another engine"):
            async with opened():
                pass
    assert await desk.record("1", ("s|1",))
    await desk.journal.close()
    async with opened() as again:
        assert await again.record("2", ("s|1",))


async def test_the_folder_is_free_after_a_close(opened: Opener) -> None:
    """And after an attempt that failed."""
    async with opened() as desk:
        pass
    descriptor = os.open(desk.folder / "journal.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    async with opened():
        pass


async def test_a_folder_that_is_not_there_is_refused(opened: Opener, tmp_path: Path) -> None:
    """The message names it."""
    with pytest.raises(JournalUnusableError, match="nowhere"):
        async with opened(tmp_path / "nowhere"):
            pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """The message says what to mend."""
    tmp_path.chmod(0o500)
    with pytest.raises(JournalUnusableError, match="permissions"):
        open_writer(tmp_path)


async def test_a_file_that_is_no_journal_is_refused(opened: Opener, tmp_path: Path) -> None:
    """It is left as it is."""
    (tmp_path / FILE).write_bytes(b"something else entirely" * 100)
    with pytest.raises(JournalUnusableError, match="NOTADB"):
        async with opened():
            pass
    assert (tmp_path / FILE).read_bytes().startswith(b"something else")


async def test_a_newer_schema_is_refused(opened: Opener, tmp_path: Path) -> None:
    """A program that does not know a migration must not write."""
    async with opened() as desk:
        await desk.record("1", ("s|1",))
    with contextlib.closing(oracle.connect(tmp_path / FILE)) as file:
        file.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, '9999_future', '')",
            (schema.NAME,),
        )
        file.commit()
    with pytest.raises(JournalUnusableError, match="9999_future"):
        async with opened():
            pass


async def test_an_older_schema_is_migrated_with_its_entries(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A migration that this file has not seen is applied once, and what was recorded stays."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
    newer = schema.Migrations(schema.NAME)
    newer._migrations = [*schema.MIGRATIONS._migrations]
    ran = []

    @newer(name="0002_of_a_test")
    def _second(db: Database) -> None:
        ran.extend(db.execute("SELECT seq FROM entry").fetchall())
        db.execute("ALTER TABLE entry ADD COLUMN of_a_test TEXT NOT NULL DEFAULT 'x'")

    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    for _time in range(2):
        async with opened() as desk:
            assert await desk.claimed() == [seq]
    assert ran == [(seq,)]
    monkeypatch.undo()
    with pytest.raises(JournalUnusableError, match="0002_of_a_test"):
        async with opened():
            pass


def older(folder: Path, last: str) -> None:
    """Take a journal back to the tables that it had after a migration, as an older program left it."""
    with contextlib.closing(oracle.connect(folder / FILE)) as file:
        for name, statements in reversed(schema.STEPS):
            if name <= last:
                continue
            made = (table[1] for one in statements if (table := re.search(r"CREATE TABLE (\w+)", one)))
            for statement in BACK.get(name, [f"DROP TABLE {table}" for table in made]):
                file.execute(statement)
            file.execute("DELETE FROM _sqlite_migrations WHERE name = ?", (name,))
        file.commit()


LOOKED_UP = "destination, seq, patient, state, reason, codes, handle, tries, due_at, settled_at"
BACK = {
    "0009_proofs": ("DROP TABLE proof",),
    "0007_duplicates": (
        "DROP INDEX entry_control",
        "CREATE INDEX entry_control ON entry (control_id, source, fingerprint)",
    ),
    "0008_requests": (
        "UPDATE attempt SET url = url || '?' || CAST(query AS TEXT) WHERE query <> x''",
        "ALTER TABLE attempt DROP COLUMN query",
    ),
    "0011_merges": ("DROP INDEX known_gone",),
    "0017_row_checks": tuple(
        f"ALTER TABLE {table} DROP COLUMN crc" for table in ("attempt", "delivery", "known", "owned")
    ),
    "0014_holders": ("ALTER TABLE delivery DROP COLUMN holder",),
    "0013_follow_ups": (
        *tables.LOOKUPS,
        f"INSERT INTO lookup SELECT {LOOKED_UP} FROM follow_up",  # noqa: S608 - constants
        "DROP TABLE follow_up",
    ),
}


async def test_what_an_older_program_recorded_is_known_again_on_its_channel(opened: Opener, tmp_path: Path) -> None:
    """Its index is made anew: the same bytes are a duplicate on the channel they came in by, and on no other."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
    older(tmp_path, "0006_care")
    async with opened() as desk:
        again = await desk.journal.record(desk.entry("1", ("s|1",)))
        assert (again.duplicate, again.seq) == (True, seq)
        assert not (await desk.journal.record(desk.entry("1", ("s|1",), channel="shadow"))).duplicate
        (plan,) = await desk.journal.read(
            lambda connection: connection.execute(f"EXPLAIN QUERY PLAN {duplicates.FIRST}", (None,) * 8).fetchall()[:1]
        )
        assert "control_id=? AND source=? AND channel=? AND fingerprint=?" in plan[3]


async def test_look_ups_that_an_older_program_promised_are_due(opened: Opener, tmp_path: Path) -> None:
    """They are follow-ups now, with all that is known of them; what has ended is no more asked for."""
    asked = (FollowUpRequest(FollowUpKind.LOOKUP, "Patient/p1"),)
    failed = FollowUpEnd(FollowUpState.WAITING, "lookup-failed", NOW, ("http-503",), "http://h/1", NOW)
    async with opened() as desk:
        for control_id in "12":
            seq = await desk.record(control_id, (f"s|{control_id}",))
            await desk.claim()
            await desk.deliver(seq, follow_ups=asked)
        settle = partial(follow_ups.settle, destination="d", kind=FollowUpKind.LOOKUP)
        await desk.journal.write(partial(settle, seq=1, end=failed))
        await desk.journal.write(partial(settle, seq=2, end=FollowUpEnd(FollowUpState.ACCEPTED, "", NOW)))
    older(tmp_path, "0012_lookups")
    async with opened() as desk:
        due = partial(follow_ups.due, destination="d", kind=FollowUpKind.LOOKUP, now=NOW, most=9)
        assert [(one.seq, one.patient, one.tries) for one in await desk.journal.read(due)] == [(1, "Patient/p1", 1)]
        with Reader(tmp_path) as reader:
            found = reader.show(1).deliveries[0].lookup
        assert found is not None
        assert (found.state, found.reason, found.codes, found.handle) == (
            *("waiting", "lookup-failed", ("http-503",), "http://h/1"),
        )


SEARCH = "http://127.0.0.1/Patient?identifier=s%7C4711"


@pytest.mark.parametrize(
    ("change", "left"),
    [
        pytest.param("SELECT 1", SEARCH, id="with its body, in clear"),
        pytest.param("DELETE FROM payload", SEARCH.partition("?")[0], id="its body is gone"),
        pytest.param(
            "INSERT INTO seal_key (day, wrapped) VALUES (-1, x'00')", SEARCH.partition("?")[0], id="a sealed journal"
        ),
    ],
)
async def test_what_older_urls_asked_by_goes_where_nothing_of_a_patient_may_stand(
    opened: Opener, tmp_path: Path, change: str, left: str
) -> None:
    """As the journal is brought up: bodies that are gone take it along, and a sealed journal has none in clear."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        await desk.journal.intend(seq, "d", replace(intent(), url=SEARCH))
    older(tmp_path, "0007_duplicates")
    with contextlib.closing(oracle.connect(tmp_path / FILE)) as file:
        file.execute(change)
        file.commit()
    with contextlib.closing(open_writer(tmp_path)) as connection:
        assert connection.execute("SELECT url, query FROM attempt").fetchall() == [(left, b"")]


@pytest.mark.parametrize("change", ["ALTER TABLE run DROP COLUMN bound", "DROP TABLE run"])
def test_tables_of_no_release_are_refused_with_what_to_do(change: str, tmp_path: Path) -> None:
    """A file that names the same migrations and yet has other tables would fail later, in the middle of an act."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        connection.execute(change)
    with pytest.raises(JournalUnusableError, match="between two releases"):
        open_writer(tmp_path)


def test_a_table_that_is_in_the_way_is_no_fault_of_the_disk(tmp_path: Path) -> None:
    """A migration that meets its own table says that the file is not of a release, not that the disk is bad."""
    with contextlib.closing(open_writer(tmp_path)) as connection:
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = '0006_care'")
    with pytest.raises(JournalUnusableError, match="between two releases"):
        open_writer(tmp_path)


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or nothing."""
    open_writer(tmp_path).close()
    newer = schema.Migrations(schema.NAME)
    newer._migrations = [*schema.MIGRATIONS._migrations]

    @newer(name="0002_fails")
    def _second(db: Database) -> None:
        db.execute("DROP TABLE plan")
        db.execute("SELECT nonsense")

    monkeypatch.setattr(schema, "MIGRATIONS", newer)
    with pytest.raises(JournalUnusableError):
        open_writer(tmp_path)
    monkeypatch.undo()
    with contextlib.closing(open_writer(tmp_path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM plan").fetchone() == (0,)


def test_what_a_kill_left_in_the_write_ahead_log_is_in_the_file_after_the_start(tmp_path: Path) -> None:
    """The barrier moves and syncs it before anything is answered: the file alone then holds what was acknowledged."""
    killed = [sys.executable, "-m", "tests.journal.lives", str(tmp_path), "0", "60", "F05:kill:5"]
    told = subprocess.run(killed, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False)
    assert told.returncode == -signal.SIGKILL
    acked = {int(line.split()[1]) for line in told.stdout.splitlines() if line.startswith("ack ")}
    log = tmp_path / f"{FILE}-wal"
    assert log.stat().st_size > 0
    with contextlib.closing(open_writer(tmp_path)):
        assert log.stat().st_size == 0
        alone = tmp_path / "alone.db"
        subprocess.run(["cp", tmp_path / FILE, alone], check=True)  # a copy of our own would drop SQLite's locks
    with contextlib.closing(oracle.connect(alone)) as file:
        stored = {seq for (seq,) in file.execute("SELECT seq FROM payload")}
    assert acked
    assert acked <= stored


async def test_a_journal_of_another_version_is_not_read(opened: Opener, tmp_path: Path) -> None:
    """A reader says of an older one to start the engine once, and of a newer one to use that version."""
    async with opened(tmp_path):
        pass
    with contextlib.closing(oracle.connect(tmp_path / FILE)) as connection:
        connection.execute("DELETE FROM _sqlite_migrations WHERE name = '0006_care'")
        connection.commit()
    with pytest.raises(JournalUnusableError, match="start the engine once"):
        open_reader(tmp_path)
    with contextlib.closing(oracle.connect(tmp_path / FILE)) as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations VALUES (99, 'adt-engine-journal', '9999_later', '2030-01-01')"
        )
        connection.commit()
    with pytest.raises(JournalUnusableError, match="newer adt-engine"):
        open_reader(tmp_path)
