"""The audit trail: a hash-chained log (engine/database/chain.py) whose rows are hashed as canonical JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import orjson

from engine.database import chain
from engine.database.connection import Connection, json_list
from engine.journal.moment import to_micros

COLUMNS: Final = (
    "seq", "at", "actor", "role", "via", "address", "act", "entry", "outcome", "reason", "detail", "patients",
    "follows",
)  # fmt: skip

# The newest row and its hash, which the next one follows.
HEAD: Final = "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
# Append a row.
ADD: Final = """
INSERT INTO audit (seq, at, actor, role, via, address, act, entry, outcome, reason, detail, patients, follows, hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# The identity keys of an entry's patients, with all that stand in their lanes.
KEYS: Final = """
SELECT l.key FROM entry AS e CROSS JOIN json_each(e.patients) AS mine JOIN lane_of AS l ON l.identity = mine.value
WHERE e.seq = ?
"""


class AuditOutcome(StrEnum):
    """What a row says: an act is about to happen, or one of the two ways in which it came to nothing."""

    ASKED = "asked"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, repr=False)
class AuditRecord:
    """One row to add: who, in which role, by which way and from where, did what to which entry, and why.

    `outcome` ASKED is written ahead of the effect; another one names in `follows` the row that it belongs to.
    `detail`: JSON of what was given, without anything of a patient. `patients`: marks (keyed digests) of those whom it
    concerns.
    """

    at: datetime
    actor: str
    role: str
    via: str
    act: str
    address: str = ""
    entry: int | None = None
    outcome: AuditOutcome = AuditOutcome.ASKED
    reason: str = ""
    detail: str = "{}"
    patients: tuple[str, ...] = ()
    follows: int | None = None


Marking = Callable[[str], Sequence[str]]


def append(
    connection: Connection, record: AuditRecord, marks: Marking | None = None, entries: Sequence[int] = ()
) -> int:
    """Add a row and return its number; with `marks` the patients of those entries are marked in it.

    `marks` turns an identity key (`system|value`) into the marks that it is found by.
    """
    last, before = head(connection)
    patients = list(record.patients)
    if marks is not None:
        patients += [mark for entry in entries for key in _keys(connection, entry) for mark in marks(key)]
    row = (
        last + 1, to_micros(record.at), record.actor, record.role, record.via, record.address, record.act,
        record.entry, record.outcome.value, record.reason, record.detail,
        json_list(sorted(set(patients))), record.follows,
    )  # fmt: skip
    connection.execute(ADD, (*row, digest(before, row)))
    return last + 1


def head(connection: Connection) -> chain.ChainLink:
    """Return number and hash of the last row; 0 and 32 zero bytes where there is none."""
    return chain.head(connection, HEAD)


def digest(before: bytes, row: Sequence[Any]) -> bytes:
    """Return the hash of a row (its columns in the order of COLUMNS) that follows one with the hash `before`."""
    return chain.chained(before, text(row))


def text(row: Sequence[Any]) -> bytes:
    """Return what is hashed of a row (its columns in the order of COLUMNS)."""
    return canonical(dict(zip(COLUMNS, row, strict=True)))


def canonical(value: Any) -> bytes:
    """Return JSON that is the same for the same value: keys sorted, no spaces, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _keys(connection: Connection, entry: int) -> list[str]:
    return [key for (key,) in connection.execute(KEYS, (entry,)).fetchall()]
