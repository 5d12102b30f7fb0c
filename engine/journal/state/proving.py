"""Proving: which servers, by name and version, were found to honour If-Match, and which to ignore it.

Each function works on any connection of the journal; hand `keep` to `Journal.write`.
"""

from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.database.connection import Connection
from engine.errors import JournalUnusableError
from engine.journal.moment import to_micros
from engine.journal.opening import exists, open_reader

# Remember whether a version of a server honours If-Match.
KEEP: Final = """
INSERT INTO proof (destination, server, if_match, at) VALUES (?, ?, ?, ?)
ON CONFLICT (destination, server) DO UPDATE SET if_match = excluded.if_match, at = excluded.at
"""
# What is known of a destination's servers.
PROOFS: Final = "SELECT server, if_match FROM proof WHERE destination = ?"


def keep(connection: Connection, destination: str, server: str, honoured: bool, now: datetime) -> None:
    """Note whether a server honours If-Match."""
    connection.execute(KEEP, (destination, server, int(honoured), to_micros(now)))


def proofs(connection: Connection, destination: str) -> dict[str, bool]:
    """Return whether If-Match is honoured, by each server that was tried at a destination."""
    return {server: bool(honoured) for server, honoured in connection.execute(PROOFS, (destination,)).fetchall()}


def proofs_in(folder: Path, destination: str) -> dict[str, bool]:
    """Return the same from the file of a journal; nothing where there is none that can be read."""
    if not exists(folder):
        return {}
    try:
        with closing(open_reader(folder)) as connection:
            return proofs(connection, destination)
    except JournalUnusableError:
        return {}
