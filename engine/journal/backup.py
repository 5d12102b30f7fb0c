"""Backups: a journal copied whole while the engine runs, proven before it counts, and brought back with care.

The copy is of one moment: the reader that makes it keeps that moment until it is done, so that what is written
meanwhile neither disturbs the copy nor starts it again. A restored journal is older than the world: what it calls
unfinished may have been delivered, and overtaken, since. So every destination is paused until a person has looked.
"""

import dataclasses
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import Final

from engine import fault
from engine.errors import BackupError
from engine.journal.database import FILE, copy_whole, open_reader, open_to_read, open_to_write
from engine.journal.lock import FolderLock
from engine.journal.pausing import pause_everywhere
from engine.journal.reopening import close_entrances
from engine.journal.reserve import free_bytes_kept
from engine.journal.sealing import configured, opened
from engine.journal.verify import faults
from engine.sqlite import failure_of

PAGES_AT_ONCE: Final = 2048
PART: Final = ".part"
ASIDE: Final = ".before-restore-{:%Y%m%dT%H%M%S}"

COUNTS: Final = "SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM entry"
UNFINISHED: Final = "SELECT COUNT(DISTINCT seq) FROM delivery WHERE state IN ('received', 'waiting', 'claimed', 'held')"

Watch = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Proven:
    """A file that was proven whole: entries, number of the last, how many are unfinished, size, SHA-256 (hex)."""

    path: Path
    entries: int
    last: int
    unfinished: int
    size_bytes: int
    sha256: str


def back_up(folder: Path, target: Path, watch: Watch) -> Proven:
    """Copy the journal of a folder into a new file while the engine runs, and prove the copy.

    The file gets its name only when it is proven, so that one with the name is whole. `watch` hears pages done and
    in all. BackupError: the target exists, or there is no room for it or for the log that grows meanwhile.
    """
    if target.exists():
        raise BackupError(f"{target} exists: name a new file, a backup is never written over")
    part = target.with_name(target.name + PART)
    _make_empty(part)
    keep = free_bytes_kept(folder)

    def progress(_status: int, remaining: int, total: int) -> None:
        fault.point("F24")
        if shutil.disk_usage(folder).free < keep:
            raise BackupError(f"the disk of {folder} is nearly full: the backup was given up, the engine goes on")
        watch(total - remaining, total)

    try:
        with closing(open_reader(folder)) as source:
            copy_whole(source, part, PAGES_AT_ONCE, progress)
        proven = prove(part)
        _keep(part, target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if (word := failure_of(error)) is not None:
            raise BackupError(f"{target} could not be written ({word}): mend the disk, then try again") from error
        raise
    return dataclasses.replace(proven, path=target)


def prove(path: Path) -> Proven:
    """Read a whole backup: the file, its tables and the digest of every body; BackupError names the first fault."""
    if not path.is_file():
        raise BackupError(f"there is no backup {path}")
    with closing(open_to_read(path)) as connection:
        try:
            found = next(faults(connection, sealing=opened(connection, configured())), None)
            entries, last = connection.execute(COUNTS).fetchone()
            (unfinished,) = connection.execute(UNFINISHED).fetchone()
        except Exception as error:
            if (word := failure_of(error)) is not None:
                raise BackupError(f"{path} is no whole journal ({word}): take another backup") from error
            raise
    if found is not None:
        where = f"entry {found.entry} " if found.entry else ""
        raise BackupError(f"{path} is not sound: {where}{found.meaning}; take another backup")
    with path.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return Proven(path, entries, last, unfinished, path.stat().st_size, digest)


def restore(backup: Path, folder: Path, *, now: datetime, replace: bool = False) -> Proven:
    """Put a proven backup in the place of a folder's journal, every destination paused; return what it holds.

    A journal that is there already is set aside under another name, and only with `replace`; nothing is deleted.
    BackupError: it is not sound, or a journal is there. JournalUnusableError: an engine runs on the folder, or the
    backup was written by a newer program.
    """
    proven = prove(backup)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FolderLock(folder)
    try:
        place = folder / FILE
        if place.exists() and not replace:
            raise BackupError(f"{folder} holds a journal: name another --data, or set it aside with --replace")
        part = place.with_name(FILE + PART)
        _make_empty(part)
        shutil.copyfile(backup, part)
        with closing(open_to_write(part)) as connection:
            pause_everywhere(connection, "restored", now)
            close_entrances(connection, now)
        _set_aside(place, ASIDE.format(now))
        _keep(part, place)
    finally:
        lock.release()
    return proven


def _set_aside(place: Path, ending: str) -> None:
    """Rename a journal with its log; the log goes first, as it means nothing without its file."""
    for name in ("-wal", "-shm", ""):
        file = place.with_name(place.name + name)
        if file.exists():
            file.rename(place.with_name(place.name + ending + name))


def _make_empty(path: Path) -> None:
    """Make a file that nobody else may read; what an interrupted try left is taken away."""
    try:
        path.unlink(missing_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise BackupError(f"{path.parent} cannot be written ({error.strerror}): name another place") from error


def _keep(part: Path, place: Path) -> None:
    """Give a finished file its name, and let the disk mean it."""
    _sync(part)
    part.rename(place)
    _sync(place.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
