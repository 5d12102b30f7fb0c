"""Connections to the service's SQLite file, and the pragmas that make its promises true."""

import fcntl
import os
from pathlib import Path
from typing import Any, Final

from sqlite_utils import Database
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]

from engine.errors import StartError
from engine.interchange.store.schema import STEPS, migrations

Connection = Any
SqliteError: Final = sqlite3.Error

SETTLE: Final = "INSERT INTO home (one, environment) VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
SETTLED: Final = "SELECT environment FROM home"
PREFIX: Final = "sqlite:///"
# Older ones have a bug of the write-ahead log with several writing connections.
OLDEST_SQLITE: Final = (3, 51, 3)
LOG_PAGES: Final = 4000

# Each setting and the value that is read back: a fault that hits one of them is otherwise silent.
SETTINGS: Final[tuple[tuple[str, str | int, str | int], ...]] = (
    ("busy_timeout", 10_000, 10_000),
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", 2),
    ("fullfsync", 1, 1),
    ("checkpoint_fullfsync", 1, 1),
    ("mmap_size", 0, 0),
    ("trusted_schema", 0, 0),
    ("cell_size_check", 1, 1),
    ("secure_delete", 1, 1),
    ("temp_store", 2, 2),
    ("cache_size", -16_384, -16_384),
    ("wal_autocheckpoint", LOG_PAGES, LOG_PAGES),
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


def database_path(url: str) -> Path:
    """Return the file that `sqlite:///PATH` names; StartError for any other URL."""
    if not url.startswith(PREFIX) or len(url) == len(PREFIX):
        raise StartError(f"--database {url.rpartition('@')[2]}: expected sqlite:///PATH")
    return Path(url.removeprefix(PREFIX))


def prepare(path: Path, environment: str = "") -> None:
    """Make the file, readable by its owner only, and bring its tables up to date.

    It belongs to the first `environment` that is named; StartError for any other, where it cannot be used, where it is
    another program's, and where a newer program has changed its tables.
    """
    check_library()
    try:
        # A file that exists is never opened by other means than SQLite's: closing it would drop SQLite's locks.
        if not path.exists():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = connect(path)
        try:
            _refuse_other(Database(connection), path)
            migrations.apply(Database(connection))
            if environment:
                connection.execute(SETTLE, (environment,))
            settled = [name for (name,) in connection.execute(SETTLED)]
        finally:
            connection.close()
    except (OSError, SqliteError) as error:
        raise _unusable(path, error) from error
    if environment and settled != [environment]:
        raise StartError(f"the database {path} belongs to {settled[0]}, and this is {environment}: name another file")


def connect(path: Path, *, reading: bool = False) -> Connection:
    """Return a connection that begins no transaction by itself; one for reading refuses writes.

    StartError: SQLite does not take a setting that durability needs.
    """
    connection = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False, cached_statements=256)
    for name, value, expected in SETTINGS:
        connection.execute(f"PRAGMA {name}={value}").fetchall()
        found = connection.execute(f"PRAGMA {name}").fetchall()
        if not found or found[0][0] != expected:
            connection.close()
            raise StartError(f"SQLite does not take {name}={value} for {path}: name a file on a local ext4 or xfs disk")
    if reading:
        connection.execute("PRAGMA query_only=ON")
    return connection


def open_known(path: Path) -> Connection:
    """Return a connection for reading a database that exists; StartError where it is none that this program made."""
    check_library()
    try:
        if not path.exists():
            raise StartError(f"there is no database {path}: name another with --database")
        connection = connect(path, reading=True)
        _refuse_other(Database(connection), path)
        missing = STEPS.keys() - {one.name for one in migrations.applied(Database(connection))}
    except (OSError, SqliteError) as error:
        raise _unusable(path, error) from error
    if missing:
        connection.close()
        raise StartError(f"the database {path} is empty, or an older adt-engine's: start the service on it once")
    return connection


def check_library(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """Raise StartError where the SQLite library is one that can corrupt a database."""
    if version < OLDEST_SQLITE:
        found = ".".join(map(str, version))
        raise StartError(f"SQLite {found} can corrupt a database; 3.51.3 is needed: pip install 'pysqlite3>=0.6.1'")


def shrink(connection: Connection, wait_ms: int) -> bool:
    """Move the write-ahead log into the file and free its room; False where readers kept it for so long."""
    connection.execute(f"PRAGMA busy_timeout={wait_ms}").fetchall()
    try:
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
    finally:
        connection.execute("PRAGMA busy_timeout=10000").fetchall()
    return not busy


def is_disk_error(error: BaseException) -> bool:
    """Say whether an error is one of the disk or the file, and not of a statement: nothing may be written after it."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF not in _HARMLESS
    return isinstance(error, OSError)


def is_busy(error: BaseException) -> bool:
    """Say whether an error is that of a lock which another process holds."""
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _unusable(path: Path, error: Exception) -> StartError:
    said = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
    return StartError(
        f"the database {path} cannot be used ({said}): mend the file, or the permissions of it and its folder,"
        " or name another with --database"
    )


def _refuse_other(database: Database, path: Path) -> None:
    applied = [one.name for one in migrations.applied(database)]
    if not applied and set(database.table_names()) - {migrations.migrations_table}:
        raise StartError(f"the database {path} is another program's: name another with --database")
    unknown = [name for name in applied if name not in STEPS]
    if unknown:
        raise StartError(
            f"the database {path} was changed by a newer adt-engine (step {unknown[0]}): "
            "install that one, or restore a backup from before"
        )


class Lock:
    """The right to be the only service on a database file; StartError where another process has it."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(f"the folder of {path} cannot be written ({error.strerror})") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            text = f"another interchange service (process {holder}) uses {path}: stop it, or name another --database"
            raise StartError(text) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the right back."""
        os.close(self._file)
