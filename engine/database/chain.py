"""Hash-chained logs: rows that are only ever added, each bound to the one before it.

A row's hash is SHA-256(hash of the row before, then the row's text); the first row follows 32 zero bytes.
"""

from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from typing import Final, NamedTuple

from engine.database.connection import Connection

FIRST: Final = bytes(32)


class ChainLink(NamedTuple):
    """Number and hash of a row."""

    seq: int
    hash: bytes


START: Final = ChainLink(0, FIRST)


class Break(Enum):
    """Why a row does not continue the one before: rows between them are missing, or one of the two was changed."""

    MISSING = "missing"
    CHANGED = "changed"


def head(connection: Connection, query: str) -> ChainLink:
    """Return the newest row by a query of its number and hash; START where there is none."""
    row = connection.execute(query).fetchone()
    return START if row is None else ChainLink(row[0], bytes(row[1]))


def chained(before: bytes, text: bytes) -> bytes:
    """Return the hash of a row that follows one with the hash `before`."""
    return sha256(before + text).digest()


def break_between(before: ChainLink, row: ChainLink, texts: Sequence[bytes]) -> Break | None:
    """Return why `row` does not continue `before`, None where it does.

    `texts`: the row as it may have been hashed, where a database does not keep all that is written to it.
    """
    if row.seq != before.seq + 1:
        return Break.MISSING
    return None if row.hash in (chained(before.hash, text) for text in texts) else Break.CHANGED
