"""Opening a journal to read: the file of a data folder, or the database that its node shares with others."""

import importlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed

from engine.database.connection import Connection, refusal_of
from engine.database.sqlite import SqliteConnection
from engine.errors import JournalRefusedError, JournalUnusableError
from engine.journal.file import database
from engine.journal.file.lock import give_to_owner

# In the data folder of a node: where its journal is, without a password.
ADDRESS_FILE: Final = "journal.address"
# SQLite's steps between two looks at the time.
STEPS: Final = 10_000


def address_of(folder: Path) -> str:
    """Return the address of the database that the node of a folder shares; empty where its journal is in the folder."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return (folder / ADDRESS_FILE).read_text(encoding="utf-8").strip()
    return ""


def keep_address(folder: Path, address: str) -> None:
    """Keep in a data folder where its journal is, so that commands with that folder find it.

    JournalUnusableError: it has a journal of its own, or one in another database.
    """
    before = address_of(folder)
    if before and before != address:
        raise JournalUnusableError(
            f"the journal of {folder} is in {before}: name that one by --journal, or another folder by --data"
        )
    if (folder / database.FILE).exists():
        raise JournalUnusableError(
            f"{folder} holds a journal of its own: move it by `adt-engine journal copy --from {folder} --to {address}` "
            f"and take {database.FILE} out of the folder, or name another folder by --data"
        )
    if not before:
        path = folder / ADDRESS_FILE
        path.write_text(f"{address}\n", encoding="utf-8")
        with path.open() as file:
            give_to_owner(file.fileno(), folder)


def exists(folder: Path) -> bool:
    """Say whether a data folder has a journal, in a file or elsewhere."""
    return bool(address_of(folder)) or (folder / database.FILE).exists()


def open_reader(folder: Path) -> Connection:
    """Open a connection that can only read; JournalUnusableError where there is no journal that this program knows."""
    address = address_of(folder)
    if not address:
        return database.open_reader(folder)
    # PostgreSQL's library is loaded only where a journal is there.
    nodes = importlib.import_module("engine.journal.nodes.database")
    return cast(Connection, nodes.open_reader(address))


@contextmanager
def moment(connection: Connection, seconds: float) -> Iterator[None]:
    """Read everything within as of one moment, on a connection that only reads; TimeoutError after `seconds`.

    JournalRefusedError where PostgreSQL refuses what is asked.
    """
    if not isinstance(connection, SqliteConnection):
        try:
            with connection.moment(seconds):  # type: ignore[attr-defined]
                yield
        except Exception as error:
            if code := refusal_of(error):
                raise JournalRefusedError(code) from error
            raise
        return
    end = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    connection.execute("BEGIN")
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        raise TimeoutError from error
    finally:
        connection.execute("ROLLBACK")
