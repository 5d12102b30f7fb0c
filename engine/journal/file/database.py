"""The journal's SQLite file: opened durable or not at all, on a disk of this machine.

The file is never opened by other means in this process, because closing any descriptor of it would drop SQLite's
locks.

Locks and syncs of a file server are not those of a disk: two engines could write one journal, and what was synced
could be lost.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from sqlite_utils import Database
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed

from engine.database.durable import sync
from engine.database.sqlite import DURABLE, Setting, SqliteConnection, failure_of, library_fault, untaken
from engine.errors import JournalUnusableError
from engine.journal.file.lock import FILE as LOCK
from engine.journal.file.schema import migrate, refuse_newer, refuse_older

MOUNTS: Final = Path("/proc/self/mountinfo")
REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


class Mount(NamedTuple):
    """A mounted file system: the number of its device (`major:minor`) and its type; both empty where unknown."""

    device: str
    kind: str

    @property
    def remote(self) -> bool:
        """Whether it belongs to a file server."""
        return self.kind in REMOTE


def mount_of(folder: Path, lines: Iterable[str] | None = None) -> Mount:
    """Return the mount of a folder, from the lines of mountinfo (this machine's where none are given)."""
    if lines is None:
        lines = MOUNTS.read_text(encoding="utf-8").splitlines() if MOUNTS.exists() else ()
    found, longest = Mount("", ""), -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        point = Path(fields[4].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= longest:
            longest, found = len(point.parts), Mount(fields[2], after.split(" ", 1)[0])
    return found


FILE: Final = "journal.db"
PART: Final = ".part"
# A restore that was cut off leaves this: the journal next to it, if any, is not the one to go on with.
RESTORING: Final = FILE + PART
# A copy that is not finished: its engine may not start before it is.
COPYING: Final = FILE + ".copying"
# What stays in a data folder when its journal goes: of the engine, and the service's file next to an engine's lock.
LEFT: Final = ("access.key", "audit-anchors.jsonl", "audit-anchors.key", f"{FILE}-wal", "text.db")
SERVICE: Final = "interchange.db"
# Of a new journal; one that was made with 4 KiB keeps them. A message changes a little of some fourteen pages, and each
# is written whole to the log: smaller ones save a third of that.
PAGE_BYTES: Final = 2048
# The log is moved into the file from half of this length, in parallel to the writer; at this length by the commit that
# reaches it, which takes some 10 ms for 4 MB.
LOG_BYTES: Final = 64 * 1024 * 1024
# Up to this size a file is looked through at every start, in less than a second.
SMALL_BYTES: Final = 64 * 1024 * 1024
STATEMENTS_CACHED: Final = 512
# Pages that the writer keeps. It fills with whatever was written last, and a commit reads no fewer pages with more.
CACHE_KIB: Final = 8_192

_WRITER: Final[tuple[Setting, ...]] = (
    ("busy_timeout", 5000, 5000),
    *DURABLE,
    ("foreign_keys", 1, 1),
    ("cache_size", -CACHE_KIB, -CACHE_KIB),
)

_READER: Final[tuple[Setting, ...]] = (
    ("busy_timeout", 5000, 5000),
    ("query_only", 1, 1),
    ("mmap_size", 0, 0),
    ("trusted_schema", 0, 0),
    ("cell_size_check", 1, 1),
)


def open_writer(folder: Path, log_bytes: int = LOG_BYTES) -> SqliteConnection:
    """Open the one writing connection in this thread, migrate the schema, and pass the start-up barrier.

    `log_bytes`: at this length the write-ahead log is moved into the file; twice of it is what it keeps of a longer
    one, which a reader made it grow to. A small file is looked through for damage first.

    The barrier moves all that the write-ahead log holds into the file and syncs it, so that nothing is answered for
    which is not on the disk. JournalUnusableError says what to mend.
    """
    _check_folder(folder)
    return open_to_write(folder / FILE, log_bytes)


def open_to_write(path: Path, log_bytes: int = LOG_BYTES) -> SqliteConnection:
    """Open a journal's file by its path as `open_writer` does; for a copy that is not yet in its place."""
    _check_library()
    connection = sqlite3.connect(str(path), isolation_level=None, cached_statements=STATEMENTS_CACHED)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}").fetchall()
        pages, room = log_bytes // page_bytes(connection), 2 * log_bytes
        log: tuple[Setting, ...] = (("wal_autocheckpoint", pages, pages), ("journal_size_limit", room, room))
        _apply(connection, (*_WRITER, *log))
        _check_small(connection, path)
        migrate(Database(connection, execute_plugins=False, recursive_triggers=False))
        barrier(connection)
        # SQLite syncs the folder when it makes its files, and says nothing where that fails.
        sync(path.parent)
    except (sqlite3.Error, OSError) as error:
        connection.close()
        raise JournalUnusableError(_unusable(path.parent, error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_beside(path: Path) -> SqliteConnection:
    """Open a second connection to a journal that its writer has open, to move its log; sqlite3.Error where it fails."""
    connection = sqlite3.connect(str(path), isolation_level=None)
    try:
        _apply(connection, (("busy_timeout", 5000, 5000), *DURABLE, ("wal_autocheckpoint", 0, 0)))
    except BaseException:
        connection.close()
        raise
    return connection


def page_bytes(connection: SqliteConnection) -> int:
    """Return the size of a journal's pages."""
    return int(connection.execute("PRAGMA page_size").fetchone()[0])


def log_length(connection: SqliteConnection) -> tuple[int, int]:
    """Return how many pages the write-ahead log has, and how many of them are in the file."""
    _busy, pages, moved = connection.execute("PRAGMA wal_checkpoint(NOOP)").fetchall()[0]
    return pages, moved


def move_log(connection: SqliteConnection) -> None:
    """Move what the write-ahead log has into the file, as far as readers let it; nobody waits for that."""
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def open_reader(folder: Path) -> SqliteConnection:
    """Open a connection that can only read; JournalUnusableError where there is no journal that this program knows."""
    path = (folder / FILE).absolute()
    if not path.exists():
        raise JournalUnusableError(f"there is no journal in {folder}: start the engine once, or name another --data")
    connection = open_to_read(path)
    try:
        db = Database(connection, execute_plugins=False, recursive_triggers=False)
        refuse_newer(db)
        refuse_older(db)
    except sqlite3.Error as error:
        connection.close()
        raise JournalUnusableError(_unusable(folder, error)) from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_read(path: Path) -> SqliteConnection:
    """Open a journal's file by its path as `open_reader` does; for a backup."""
    _check_library()
    connection = None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        _apply(connection, _READER)
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise JournalUnusableError(_unusable(path.parent, error)) from error
    return connection


def copy_whole(source: SqliteConnection, target: Path, pages: int, progress: Callable[[int, int, int], None]) -> None:
    """Copy a database as of one moment into a new file without a write-ahead log.

    The source keeps one moment until the end. `progress(status, remaining, total)` is called after each `pages` pages;
    what it raises ends the copy. sqlite3.Error where a disk fails.
    """
    copy = sqlite3.connect(str(target), isolation_level=None)
    try:
        source.execute("BEGIN")
        source.execute("SELECT COUNT(*) FROM sqlite_schema").fetchall()
        source.backup(copy, pages=pages, progress=progress, sleep=0)
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    finally:
        copy.close()
        if source.in_transaction:
            source.execute("ROLLBACK")


def barrier(connection: SqliteConnection) -> None:
    """Move the write-ahead log into the file and truncate it; JournalUnusableError where a reader keeps it."""
    busy, _pages, _moved = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    if busy:
        raise JournalUnusableError("another program is reading the journal for long: end it, then start again")


def shrink(connection: SqliteConnection) -> None:
    """Move the write-ahead log into the file and free its room, as far as readers let it."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _check_library() -> None:
    if fault := library_fault():
        raise JournalUnusableError(fault)


def _check_small(connection: SqliteConnection, path: Path) -> None:
    if path.stat().st_size > SMALL_BYTES:
        return
    if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise JournalUnusableError(
            f"the journal in {path.parent} is damaged: keep a copy of the folder as it is, see `journal verify`, and "
            "restore the last good backup; senders keep their messages until then"
        )


def _apply(connection: SqliteConnection, settings: tuple[Setting, ...]) -> None:
    if setting := untaken(connection, settings):
        raise JournalUnusableError(f"SQLite did not take {setting}: put the data folder on a local ext4 or xfs disk")


def refuse_vanished(folder: Path) -> None:
    """Raise JournalUnusableError where a folder has all that an engine leaves there, and no journal any more."""
    path = folder / FILE
    if (path.exists() and path.stat().st_size) or (folder / RESTORING).exists() or (folder / COPYING).exists():
        return
    # The service's file may be there before the first engine; where an engine's lock is, it is not.
    left = [name for name in LEFT if (folder / name).exists()]
    if (folder / LOCK).exists() and (folder / SERVICE).exists():
        left.append(SERVICE)
    if left:
        raise JournalUnusableError(
            f"{path} is {'empty' if path.exists() else 'missing'}, and {', '.join(left)} beside it {_say(left)} that "
            f"there was one: bring it back (`adt-engine journal restore FILE --data {folder}`), or start once with "
            "--accept-empty-journal: what it held is lost then, and what senders repeat is delivered again"
        )


def _say(names: list[str]) -> str:
    return "says" if len(names) == 1 else "say"


def _check_folder(folder: Path) -> None:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise JournalUnusableError(
            f"the data folder {folder} cannot be written: mend its owner and permissions, or choose another with --data"
        )
    if (folder / RESTORING).exists():
        raise JournalUnusableError(
            f"a restore into {folder} was cut off: repeat `adt-engine journal restore FILE --data {folder} --replace`; "
            f"what it had set aside is still there, as {FILE}.before-restore-*"
        )
    if (folder / COPYING).exists():
        raise JournalUnusableError(
            f"a copy into {folder} was cut off: repeat the command `adt-engine journal copy --from URL --to {folder}`, "
            f"which goes on where it stopped, or delete {COPYING} to give it up"
        )
    mount = mount_of(folder.absolute())
    if mount.remote:
        raise JournalUnusableError(
            f"the data folder {folder} is on a file server ({mount.kind}), whose locks and syncs are not a disk's: "
            "put it on a local ext4 or xfs disk"
        )


def _unusable(folder: Path, error: Exception) -> str:
    code = failure_of(error)
    return f"the journal in {folder} cannot be opened ({code}): check disk and permissions, or restore a backup"
