"""Connections to the service's SQLite file, and the pragmas that make its promises true."""

import fcntl
import os
from pathlib import Path
from typing import Any, Final

from sqlite_utils import Database
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]

from engine.errors import StartError
from engine.interchange.store.schema import migrations

Connection = Any
SqliteError: Final = sqlite3.Error
# Errors that lie in the statement, not in the disk: they fail one request and not the store.
STATEMENT_ERRORS: Final = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, sqlite3.DataError)

SETTLE: Final = "INSERT INTO home (one, environment) VALUES (1, ?) ON CONFLICT (one) DO NOTHING"
SETTLED: Final = "SELECT environment FROM home"
PREFIX: Final = "sqlite:///"
PRAGMAS: Final = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA busy_timeout=10000",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA cache_size=-16384",
    "PRAGMA trusted_schema=OFF",
)


def database_path(url: str) -> Path:
    """Return the file that `sqlite:///PATH` names; StartError for any other URL."""
    if not url.startswith(PREFIX) or len(url) == len(PREFIX):
        raise StartError(f"--database {url.rpartition('@')[2]}: expected sqlite:///PATH")
    return Path(url.removeprefix(PREFIX))


def prepare(path: Path, environment: str = "") -> None:
    """Make the file, readable by its owner only, and bring its tables up to date.

    It belongs to the first `environment` that is named; StartError for any other, and where it cannot be used.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = connect(path)
        try:
            migrations.apply(Database(connection))
            if environment:
                connection.execute(SETTLE, (environment,))
            settled = [name for (name,) in connection.execute(SETTLED)]
        finally:
            connection.close()
    except (OSError, SqliteError) as error:
        raise StartError(f"the database {path} cannot be used: {error}") from error
    if environment and settled != [environment]:
        raise StartError(f"the database {path} belongs to {settled[0]}, and this is {environment}: name another file")


def connect(path: Path, *, reading: bool = False) -> Connection:
    """Return a connection that begins no transaction by itself; one for reading refuses writes."""
    connection = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False, cached_statements=256)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    if reading:
        connection.execute("PRAGMA query_only=ON")
    return connection


class Lock:
    """The right to be the only service on a database file; StartError where another process has it."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise StartError(f"another interchange service uses {path}") from error

    def release(self) -> None:
        """Give the right back."""
        os.close(self._file)
