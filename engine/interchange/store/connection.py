"""Connections to the service's SQLite file, opened durable or not at all."""

import fcntl
import os
from pathlib import Path
from typing import Final

from sqlite_utils import Database
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed

from engine.database.sqlite import DURABLE, Setting, SqliteConnection, SqliteError, library_fault, untaken
from engine.errors import StartError
from engine.interchange.store.schema import STEPS, migrations

SETTLE: Final = "INSERT INTO home (one, environment) VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
SETTLED: Final = "SELECT environment FROM home"
PREFIX: Final = "sqlite:///"
LOG_PAGES: Final = 4000

SETTINGS: Final[tuple[Setting, ...]] = (
    ("busy_timeout", 10_000, 10_000),
    *DURABLE,
    ("cache_size", -16_384, -16_384),
    ("wal_autocheckpoint", LOG_PAGES, LOG_PAGES),
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
    _check_library()
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


def connect(path: Path, *, reading: bool = False) -> SqliteConnection:
    """Return a connection that begins no transaction by itself; one for reading refuses writes.

    StartError: SQLite does not take a setting that durability needs.
    """
    connection = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False, cached_statements=256)
    if setting := untaken(connection, SETTINGS):
        connection.close()
        raise StartError(f"SQLite does not take {setting} for {path}: name a file on a local ext4 or xfs disk")
    if reading:
        connection.execute("PRAGMA query_only=ON")
    return connection


def open_known(path: Path) -> SqliteConnection:
    """Return a connection for reading a database that exists; StartError where it is none that this program made."""
    _check_library()
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


def shrink(connection: SqliteConnection, wait_ms: int) -> bool:
    """Move the write-ahead log into the file and free its room; False where readers kept it for so long."""
    connection.execute(f"PRAGMA busy_timeout={wait_ms}").fetchall()
    try:
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
    finally:
        connection.execute("PRAGMA busy_timeout=10000").fetchall()
    return not busy


def _check_library() -> None:
    if fault := library_fault():
        raise StartError(fault)


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
