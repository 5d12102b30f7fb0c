"""SQLite files that keep what was committed: the library, the settings of durability, and the errors of a disk."""

import contextlib
import errno
import sqlite3
from collections.abc import Iterable
from typing import Final

# As sqlite-utils does, which takes longer to import than all that `--help` needs.
with contextlib.suppress(ImportError):
    import pysqlite3 as sqlite3  # type: ignore[no-redef]

SqliteConnection = sqlite3.Connection
SqliteRow = sqlite3.Row
SqliteError: Final = sqlite3.Error
# A setting, its value, and what is read back of it.
Setting = tuple[str, str | int, str | int]

# Older ones have a bug of the write-ahead log that can corrupt a file.
OLDEST: Final = (3, 51, 3)
DURABLE: Final[tuple[Setting, ...]] = (
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
    ("fullfsync", 1, 1),
    ("checkpoint_fullfsync", 1, 1),
    ("mmap_size", 0, 0),
    ("trusted_schema", 0, 0),
    ("cell_size_check", 1, 1),
    ("secure_delete", 1, 1),
    ("temp_store", 2, 2),
)
# Codes that say something of a statement or its values, not of the disk.
_HARMLESS: Final = frozenset(
    {
        0,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_CONSTRAINT,
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_TOOBIG,
        sqlite3.SQLITE_RANGE,
    }
)


def library_fault(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """Return why the SQLite library may not be used, and what to install; empty where it may."""
    if version >= OLDEST:
        return ""
    found, oldest = (".".join(map(str, one)) for one in (version, OLDEST))
    return f"SQLite {found} can corrupt a database; {oldest} or newer is needed: pip install 'pysqlite3>=0.6.1'"


def untaken(connection: SqliteConnection, settings: Iterable[Setting]) -> str:
    """Make settings, and return the first that SQLite did not take, as NAME=VALUE; empty where it took all.

    Each is stepped to its end and read back: a fault that hits `PRAGMA journal_mode` is otherwise silent, and leaves
    the file in another mode.
    """
    for name, value, expected in settings:
        connection.execute(f"PRAGMA {name} = {value}").fetchall()
        if connection.execute(f"PRAGMA {name}").fetchall() != [(expected,)]:
            return f"{name}={value}"
    return ""


def code_of(error: BaseException) -> int:
    """Return SQLite's primary code of an error; 0 for one that is not SQLite's, or has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF if isinstance(error, sqlite3.Error) else 0


def is_full(error: BaseException) -> bool:
    """Say whether an error is that of a full disk."""
    return code_of(error) == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno == errno.ENOSPC)


def is_busy(error: BaseException) -> bool:
    """Say whether an error is that of a lock which somebody else holds."""
    return code_of(error) == sqlite3.SQLITE_BUSY


def is_damage(error: BaseException) -> bool:
    """Say whether an error is that of a file which is damaged, or is no database."""
    return code_of(error) in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def is_disk_error(error: BaseException) -> bool:
    """Say whether an error is one of the disk or of the file, not of a statement: nothing may be written after it."""
    return isinstance(error, OSError) or (isinstance(error, sqlite3.Error) and code_of(error) not in _HARMLESS)


def failure_of(error: BaseException) -> str | None:
    """Return SQLite's name of what failed; None for an error that is not SQLite's or the disk's."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorname", "") or type(error).__name__
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else None
