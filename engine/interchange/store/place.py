"""Where the store is kept, as `--database` names it: sqlite:///PATH or postgresql://USER@HOST/NAME."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.database.connection import Connection
from engine.errors import StartError
from engine.interchange.store import sqlite
from engine.interchange.store.backend import Backend

SQLITE: Final = "sqlite:///"
POSTGRESQL: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The address of a PostgreSQL database; `shown` is how people are told of it."""

    url: str = field(repr=False)
    shown: str

    def __str__(self) -> str:
        """Return it for people."""
        return self.shown


# A file of SQLite, or PostgreSQL.
Place = Path | DatabaseAddress


def place_of(url: str) -> Place:
    """Return what a URL names; StartError for one that names nothing, or holds a password."""
    if url.startswith(POSTGRESQL):
        # Its driver takes as long to read as the rest of a command: only who uses it waits for that.
        from engine.database.postgresql import address_fault, shown  # noqa: PLC0415 - as above

        told = shown(url)
        if fault := address_fault(url):
            raise StartError(f"--database {told}: {fault}")
        return DatabaseAddress(url, told)
    if not url.startswith(SQLITE) or len(url) == len(SQLITE):
        raise StartError(
            f"--database {url.rpartition('@')[2]}: expected sqlite:///PATH or postgresql://USER@HOST[:PORT]/NAME"
        )
    return Path(url.removeprefix(SQLITE))


def backend_of(place: Place) -> Backend:
    """Return the database at a place."""
    if isinstance(place, Path):
        return sqlite.SqliteBackend(place)
    from engine.interchange.store.postgresql import PostgresqlBackend  # noqa: PLC0415 - as above

    return PostgresqlBackend(place.url, place.shown)


def open_known(place: Place) -> Connection:
    """Return a connection for reading a database that exists; StartError where it is none that this program made."""
    if isinstance(place, Path):
        return sqlite.open_known(place)
    from engine.interchange.store.postgresql import open_known  # noqa: PLC0415 - as above

    return open_known(place.url, place.shown)
