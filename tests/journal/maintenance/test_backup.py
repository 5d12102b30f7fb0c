"""A backup is whole or has no name; a restored journal waits for a person."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from engine.errors import BackupError, JournalUnusableError
from engine.journal.entry import State
from engine.journal.file.database import FILE, RESTORING, open_reader, open_writer, sqlite3
from engine.journal.maintenance.backup import back_up, prove, restore
from engine.journal.state.pausing import EVERYWHERE, paused
from tests.journal.desk import NOW, Desk, Opener, entry

# A file is backed up and verified by this program, a database by its own people.
pytestmark = pytest.mark.parametrize("address", ["sqlite"], indirect=True)


def silent(_what: str, _done: int, _of: int) -> None:
    """Hear nothing."""


async def work(desk: Desk, count: int = 40) -> None:
    """Leave entries delivered, held and waiting."""
    for number in range(count):
        await desk.record(str(number), (f"s|{number % 7}",))
    for one in await desk.claim(limit=5):
        await desk.deliver(one.seq, state=State.HELD if one.seq == 3 else State.DELIVERED)


def entries(folder: Path) -> list[tuple[object, ...]]:
    """Return what a journal holds of messages and deliveries."""
    with contextlib.closing(open_reader(folder)) as connection:
        return list(
            connection.execute(
                "SELECT e.seq, e.control_id, p.raw, d.state, d.lanes FROM entry e JOIN payload p USING (seq) "
                "JOIN delivery d USING (seq) ORDER BY e.seq"
            )
        )


async def test_a_backup_of_a_running_journal_is_one_moment(opened: Opener, tmp_path: Path) -> None:
    """What is recorded while the copy is made is not in it, all before is, and the copy stands alone."""
    target = tmp_path / "backup.db"
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        before = entries(desk.folder)
        copying = asyncio.create_task(asyncio.to_thread(back_up, desk.folder, target, silent))
        more = [desk.journal.record(entry(f"later {number}", (f"s|{number}",))) for number in range(200)]
        await asyncio.gather(*more)
        proven = await copying
    assert len(before) <= proven.entries <= len(before) + 200
    assert proven.sha256 == sha256(target.read_bytes()).hexdigest()
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in files(tmp_path)) == ["backup.db", "data"]


async def test_a_restored_journal_holds_the_same_and_pauses_every_destination(opened: Opener, tmp_path: Path) -> None:
    """Entry for entry it is the journal that was saved; it opens, and nothing runs before a person said so."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        proven = await asyncio.to_thread(back_up, desk.folder, tmp_path / "backup.db", silent)
    assert proven.unfinished > 0
    restored = restore(tmp_path / "backup.db", tmp_path / "new", now=NOW)
    assert (restored.entries, restored.last, restored.unfinished) == (40, 40, proven.unfinished)
    assert entries(tmp_path / "new") == entries(tmp_path / "data")
    async with opened(folder=tmp_path / "new") as desk:
        (pause,) = await desk.journal.read(paused)
        assert (pause.destination, pause.reason, pause.since) == (EVERYWHERE, "restored", NOW)
        assert await desk.record("next", ("s|1",)) == 41


async def test_a_journal_that_is_there_is_set_aside_never_deleted(opened: Opener, tmp_path: Path) -> None:
    """Without --replace nothing is touched; with it the old one keeps all it had under another name."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk, 5)
        back_up(desk.folder, tmp_path / "backup.db", silent)
        await desk.record("after", ("s|1",))
    with pytest.raises(BackupError, match="--replace"):
        restore(tmp_path / "backup.db", tmp_path / "data", now=NOW)
    assert len(entries(tmp_path / "data")) == 6
    restore(tmp_path / "backup.db", tmp_path / "data", now=NOW, replace=True)
    assert len(entries(tmp_path / "data")) == 5
    (aside,) = (path for path in files(tmp_path / "data") if path.name.endswith("T120000"))
    assert prove(aside).entries == 6


async def test_an_engine_at_work_keeps_its_journal(opened: Opener, tmp_path: Path) -> None:
    """Nothing is restored under a running engine."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk, 3)
        back_up(desk.folder, tmp_path / "backup.db", silent)
        with pytest.raises(JournalUnusableError, match="stop it"):
            restore(tmp_path / "backup.db", desk.folder, now=NOW, replace=True)


async def test_a_backup_is_never_written_over(opened: Opener, tmp_path: Path) -> None:
    """A name that is taken is refused, and what stands there stays."""
    (tmp_path / "backup.db").write_bytes(b"precious")
    async with opened(folder=make(tmp_path / "data")) as desk:
        with pytest.raises(BackupError, match="exists"):
            back_up(desk.folder, tmp_path / "backup.db", silent)
    assert (tmp_path / "backup.db").read_bytes() == b"precious"


@pytest.mark.parametrize("cut", [0, 1000, 9000])
async def test_a_torn_backup_is_never_restored(cut: int, opened: Opener, tmp_path: Path) -> None:
    """A file that was cut short, or is none of ours, is refused by name, and no journal appears."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        back_up(desk.folder, tmp_path / "backup.db", silent)
    content = (tmp_path / "backup.db").read_bytes()
    (tmp_path / "backup.db").write_bytes(content[:cut])
    with pytest.raises((BackupError, JournalUnusableError)):
        restore(tmp_path / "backup.db", tmp_path / "new", now=NOW)
    assert not (tmp_path / "new" / FILE).exists()


async def test_an_altered_body_is_found_before_it_is_restored(opened: Opener, tmp_path: Path) -> None:
    """One byte of one message changed: the backup is refused, and the entry is named."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        back_up(desk.folder, tmp_path / "backup.db", silent)
    with contextlib.closing(sqlite3.connect(tmp_path / "backup.db")) as connection:
        connection.execute("UPDATE payload SET raw = raw || x'20' WHERE seq = 7")
        connection.commit()
    with pytest.raises(BackupError, match="entry 7"):
        restore(tmp_path / "backup.db", tmp_path / "new", now=NOW)


async def test_a_journal_that_is_not_sound_is_not_blamed_on_its_backup(opened: Opener, tmp_path: Path) -> None:
    """Another backup would not help: the message leads to the journal itself, and nothing is left of the copy."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        await desk.journal.write(lambda connection: connection.execute("UPDATE payload SET raw = x'20' WHERE seq = 7"))
        with pytest.raises(BackupError, match=r"not kept: entry 7 .* `adt-engine journal verify --data"):
            back_up(desk.folder, tmp_path / "backup.db", silent)
    assert [path.name for path in files(tmp_path)] == ["data"]


async def test_a_backup_that_is_killed_leaves_no_name(opened: Opener, tmp_path: Path) -> None:
    """Killed in the middle (F24): no file has the backup's name, and the next try makes it."""
    target = tmp_path / "backup.db"
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        code = (
            "import sys; from pathlib import Path\n"
            "from engine import fault; from engine.journal.maintenance.backup import back_up\n"
            "fault.arm('F24:kill'); back_up(Path(sys.argv[1]), Path(sys.argv[2]), lambda what, done, of: None)"
        )
        killed = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", code, str(desk.folder), str(target)], check=False
        )
        assert killed.returncode == -signal.SIGKILL
        assert not target.exists()
        assert back_up(desk.folder, target, silent).entries == 40
    assert [path.name for path in files(tmp_path)] == ["backup.db", "data"]


async def test_a_disk_that_is_nearly_full_ends_the_backup(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log must not grow into the reserve: the backup is given up, and nothing of it is left."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        monkeypatch.setattr("engine.journal.maintenance.backup.free_bytes_kept", lambda _folder: 1 << 60)
        with pytest.raises(BackupError, match="given up"):
            back_up(desk.folder, tmp_path / "backup.db", silent)
    assert [path.name for path in files(tmp_path)] == ["data"]


async def test_no_engine_starts_where_a_restore_was_cut_off(opened: Opener, tmp_path: Path) -> None:
    """Whatever is there is not what was asked for: the start is refused with the next step, and a repeat mends it."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk, 5)
        back_up(desk.folder, tmp_path / "backup.db", silent)
    (tmp_path / "data" / RESTORING).write_bytes(b"half")
    with pytest.raises(JournalUnusableError, match="cut off: repeat `adt-engine journal restore"):
        open_writer(tmp_path / "data")
    restore(tmp_path / "backup.db", tmp_path / "data", now=NOW, replace=True)
    open_writer(tmp_path / "data").close()


async def test_a_place_that_cannot_be_a_folder_is_named(opened: Opener, tmp_path: Path) -> None:
    """A file where the data folder should be, and a folder that cannot be made."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        back_up(desk.folder, tmp_path / "backup.db", silent)
    for place in (tmp_path / "backup.db", tmp_path / "backup.db" / "data"):
        with pytest.raises(BackupError, match=f"{place} cannot be made"):
            restore(tmp_path / "backup.db", place, now=NOW)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
async def test_what_root_restores_belongs_to_the_owner_of_the_folder(opened: Opener, tmp_path: Path) -> None:
    """The engine runs as the folder's owner, and must be able to open what an administrator brought back."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        back_up(desk.folder, tmp_path / "backup.db", silent)
    os.chown(make(tmp_path / "new"), 4711, 4712)
    restore(tmp_path / "backup.db", tmp_path / "new", now=NOW)
    owners = {(path.stat().st_uid, path.stat().st_gid, path.name) for path in files(tmp_path / "new")}
    assert owners == {(4711, 4712, FILE), (4711, 4712, "journal.lock")}


@pytest.mark.parametrize("command", ["backup", "restore"])
async def test_a_disk_without_room_leaves_nothing_behind(command: str, opened: Opener, tmp_path: Path) -> None:
    """No file may grow past 100 kB here: one line says so, the journal that is there stays as it was."""
    async with opened(folder=make(tmp_path / "data")) as desk:
        await work(desk)
        back_up(desk.folder, tmp_path / "backup.db", silent)
    asked = {
        "backup": ("--to", str(tmp_path / "other.db")),
        "restore": (str(tmp_path / "backup.db"), "--replace"),
    }[command]
    before, listed = entries(tmp_path / "data"), everything(tmp_path)
    code = (
        "import resource, signal, sys; from engine.__main__ import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); main()"
    )
    arguments = ("journal", command, *asked, "--data", str(tmp_path / "data"))
    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 1
    assert "could not be written" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert everything(tmp_path) == listed
    assert entries(tmp_path / "data") == before


def make(folder: Path) -> Path:
    """Make a data folder."""
    folder.mkdir(0o700)
    return folder


def everything(folder: Path) -> list[str]:
    """Return all that stands in a folder and below, but for what SQLite keeps beside an open file."""
    return sorted(str(path) for path in folder.rglob("*") if not path.name.endswith(("-wal", "-shm")))


def files(folder: Path) -> list[Path]:
    """Return what stands in a folder, by name."""
    return sorted(folder.iterdir())
