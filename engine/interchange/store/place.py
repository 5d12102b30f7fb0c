"""Where the store is kept, as `--database` names it: sqlite:///PATH or postgresql://USER@HOST/NAME."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.database.connection import Connection
from engine.errors import StartError
from engine.interchange.store import sqlite
from engine.interchange.store.backend import StoreBackend

SQLITE: Final = "sqlite:///"
POSTGRESQL: Final = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """The address of a PostgreSQL database; `shown` is the form for logs and messages, without secrets."""

    url: str = field(repr=False)
    shown: str

    def __str__(self) -> str:
        return self.shown


# A file of SQLite, or PostgreSQL.
Place = Path | DatabaseAddress


def place_of(url: str) -> Place:
    """Return the place of a URL; StartError for one that names none, or holds a password."""
    if url.startswith(POSTGRESQL):
        # The import of the driver takes as long as the rest of a command: only its users wait for it.
        from engine.database.postgresql import address_fault, shown  # noqa: PLC0415 - as above

        address = shown(url)
        if fault := address_fault(url):
            raise StartError(f"--database {address}: {fault}")
        return DatabaseAddress(url, address)
    if not url.startswith(SQLITE) or len(url) == len(SQLITE):
        raise StartError(
            f"--database {url.rpartition('@')[2]}: expected sqlite:///PATH or postgresql://USER@HOST[:PORT]/NAME"
        )
    return Path(url.removeprefix(SQLITE))


def backend_of(place: Place) -> StoreBackend:
    """Return the database at a place."""
    if isinstance(place, Path):
        return sqlite.SqliteBackend(place)
    from engine.interchange.store.postgresql import PostgresqlBackend  # noqa: PLC0415 - as above

    return PostgresqlBackend(place.url, place.shown)


def open_known(place: Place) -> Connection:
    """Return a connection for reading a database that exists; StartError where this program did not make it."""
    if isinstance(place, Path):
        return sqlite.open_known(place)
    from engine.interchange.store.postgresql import open_known  # noqa: PLC0415 - as above

    return open_known(place.url, place.shown)
