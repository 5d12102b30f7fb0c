"""Backups: a journal copied whole while the engine runs, proven before it counts, and brought back with care.

The copy is of one moment: the reader that makes it keeps that moment until it is done, so that what is written
meanwhile neither disturbs the copy nor starts it again. A restored journal is older than the world: what it calls
unfinished may have been delivered, and overtaken, since. So every destination is paused until a person has looked.
"""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import Final

from engine import fault
from engine.database.connection import Connection
from engine.database.durable import make_folder, sync
from engine.database.sqlite import failure_of
from engine.errors import BackupError, UnsoundBackupError
from engine.journal.access import audit
from engine.journal.access.audit import AuditRecord
from engine.journal.file.database import (
    FILE,
    PART,
    RESTORING,
    copy_whole,
    open_reader,
    open_to_read,
    open_to_write,
    page_bytes,
)
from engine.journal.file.lock import FolderLock, give_to_owner
from engine.journal.file.reserve import free_bytes_kept
from engine.journal.file.sealing import configured, opened
from engine.journal.maintenance.verify import faults
from engine.journal.moment import to_micros
from engine.journal.state.pausing import pause_everywhere

PAGES_AT_ONCE: Final = 2048
ASIDE: Final = ".before-restore-{:%Y%m%dT%H%M%S}"

# How many entries, and the newest.
COUNTS: Final = "SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM entry"
# How many entries are not at their end.
UNFINISHED: Final = "SELECT COUNT(DISTINCT seq) FROM delivery WHERE state IN ('received', 'waiting', 'claimed', 'held')"
# What a restored journal must not bring back by itself: sessions and one-time tokens that ended since, bulk runs.
# End every session.
END_SESSIONS: Final = "DELETE FROM session"
# Take back every invitation.
VOID_INVITATIONS: Final = "DELETE FROM invitation"
# A run knows of nothing newer than the backup: whether it goes on is for a person to say.
STOP_RUNS: Final = "UPDATE run SET state = 'stopped', ended_at = ? WHERE state = 'running'"

Progress = Callable[[str, int, int], None]
"""Hears what is done (`pages copied`, `messages proven`), how many of how many."""


@dataclass(frozen=True, slots=True)
class Proven:
    """A file that was proven whole: entries, number of the last, how many are unfinished, size, SHA-256 (hex)."""

    path: Path
    entries: int
    last: int
    unfinished: int
    size_bytes: int
    sha256: str


def back_up(folder: Path, target: Path, watch: Progress) -> Proven:
    """Copy the journal of a folder into a new file while the engine runs, and prove the copy.

    The file gets its name only when it is proven, so that one with the name is whole. BackupError: the target exists,
    or there is no room for it or for the log that grows meanwhile.
    """
    if target.exists():
        raise BackupError(f"{target} exists: name a new file, a backup is never written over")
    part = target.with_name(target.name + PART)
    _make_empty(part)
    least = free_bytes_kept(folder)

    def progress(_status: int, remaining: int, total: int) -> None:
        fault.point("F24")
        _check_room(part.parent, remaining * size)
        if shutil.disk_usage(folder).free < least:
            raise BackupError(f"the disk of {folder} is nearly full: the backup was given up, the engine goes on")
        watch("pages copied", total - remaining, total)

    with _wholly(part, target):
        with closing(open_reader(folder)) as source:
            size = page_bytes(source)
            _check_room(part.parent, (folder / FILE).stat().st_size)
            copy_whole(source, part, PAGES_AT_ONCE, progress)
        proven = _proven(part, folder, watch)
        keep(part, target)
    return dataclasses.replace(proven, path=target)


def prove(path: Path, watch: Progress | None = None) -> Proven:
    """Read a whole backup: the file, its tables and the digest of every body; BackupError names the first fault."""
    if not path.is_file():
        raise BackupError(f"there is no backup {path}")
    with closing(open_to_read(path)) as connection:
        try:
            entries, last = connection.execute(COUNTS).fetchone()
            (unfinished,) = connection.execute(UNFINISHED).fetchone()
            read = _counted(entries, watch) if watch else None
            found = next(faults(connection, read, opened(connection, configured())), None)
        except Exception as error:
            if (word := failure_of(error)) is not None:
                raise UnsoundBackupError(path, f"it cannot be read whole ({word})") from error
            raise
    if found is not None:
        raise UnsoundBackupError(path, found.sentence)
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return Proven(path, entries, last, unfinished, path.stat().st_size, digest)


def restore(
    backup: Path, folder: Path, *, now: datetime, replace: bool = False, watch: Progress | None = None
) -> Proven:
    """Put a proven backup in the place of a folder's journal, every destination paused; return what it holds.

    A journal that is there already is set aside under another name, and only with `replace`; nothing is deleted. Where
    a restore is cut off, no engine starts on the folder before it was repeated. BackupError: it is not sound, a journal
    is there, or there is no room. JournalUnusableError: an engine runs on the folder, or the backup was written by a
    newer program.
    """
    proven = prove(backup, watch)
    try:
        make_folder(folder)
    except OSError as error:
        raise BackupError(f"the folder {folder} cannot be made ({error.strerror}): name another --data") from error
    lock = FolderLock(folder)
    try:
        place = folder / FILE
        if place.exists() and not replace:
            raise BackupError(f"{folder} holds a journal: name another --data, or set it aside with --replace")
        part = folder / RESTORING
        with _wholly(part, place):
            _make_empty(part, folder)
            _check_room(folder, proven.size_bytes)
            shutil.copyfile(backup, part)
            with closing(open_to_write(part)) as connection:
                pause_everywhere(connection, "restored", now)
                _reopen(connection, now)
            sync(part)
        _set_aside(place, ASIDE.format(now))
        keep(part, place)
    finally:
        lock.release()
    return proven


def _proven(part: Path, folder: Path, watch: Progress) -> Proven:
    try:
        return prove(part, watch)
    except UnsoundBackupError as error:
        raise BackupError(
            f"the copy is not sound, and was not kept: {error.finding}. If `adt-engine journal verify --data {folder}` "
            "finds it too, keep that folder as it is, and restore the last good backup into another one"
        ) from error


def _reopen(connection: Connection, now: datetime) -> None:
    """End all sessions, void all one-time tokens, stop all bulk runs, and write into the audit trail that it goes on.

    Accounts and API tokens are as they were then: those that were disabled or revoked since must be so again.
    """
    connection.execute(END_SESSIONS)
    connection.execute(VOID_INVITATIONS)
    connection.execute(STOP_RUNS, (to_micros(now),))
    audit.append(connection, AuditRecord(now, "adt-engine", "", "engine", "journal.restored"))


@contextlib.contextmanager
def _wholly(part: Path, target: Path) -> Iterator[None]:
    """Take away the unfinished file where its making fails, and say what the disk said."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            for name in ("-wal", "-shm", "-journal", ""):
                part.with_name(part.name + name).unlink(missing_ok=True)
        if (word := failure_of(error)) is not None:
            raise BackupError(f"{target} could not be written ({word}): mend the disk, then try again") from error
        raise


def _check_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size:
        raise BackupError(
            f"the disk of {folder} has no room: {size / 2**20:,.1f} MiB are needed and {free / 2**20:,.1f} MiB are "
            "free; free some, or name a place on another disk"
        )


def _counted(entries: int, watch: Progress) -> Callable[[int], None]:
    done = 0

    def read(count: int) -> None:
        nonlocal done
        done += count
        watch("messages proven", done, entries)

    read(0)
    return read


def _set_aside(place: Path, ending: str) -> None:
    """Rename a journal with its log; the log goes first, as it means nothing without its file."""
    for name in ("-wal", "-shm", ""):
        file = place.with_name(place.name + name)
        if file.exists():
            file.rename(place.with_name(place.name + ending + name))


def _make_empty(path: Path, owned_as: Path | None = None) -> None:
    """Make a file that nobody else may read; what an interrupted try left is taken away."""
    try:
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            if owned_as is not None:
                give_to_owner(file.fileno(), owned_as)
    except OSError as error:
        raise BackupError(f"{path.parent} cannot be written ({error.strerror}): name another place") from error


def keep(part: Path, place: Path) -> None:
    """Give a finished file its name, and let the disk mean it."""
    sync(part)
    part.rename(place)
    sync(place.parent)
