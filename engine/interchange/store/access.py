"""The access log: who did what to whose record, a hash-chained log (engine/database/chain.py).

A row is hashed as a JSON array.
"""

import getpass
import re
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from engine.database.chain import START, Break, ChainLink, break_between, chained, head
from engine.database.connection import Connection

# Patients of one row: an answer names no more than a page holds.
MOST_PATIENTS: Final = 500

# The newest row and its hash, which the next one follows.
HEAD: Final = "SELECT seq, hash FROM access ORDER BY seq DESC LIMIT 1"
ADD_PATIENT: Final = "INSERT INTO access_patient (tenant, patient, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
CHUNK: Final = 1000
# A reference to a patient, and a patient, as the service writes them.
REFERENCE: Final = re.compile(rb'"Patient/([A-Za-z0-9.-]{1,64})["/]')
PATIENT: Final = re.compile(rb'"resourceType":"Patient","id":"([A-Za-z0-9.-]{1,64})"')
# Longer texts are read up to here.
READ_BYTES: Final = 4 * 1024 * 1024


class AccessRow(NamedTuple):
    """One row to add. `outcome`: done, refused or failed; `status` is that of the answer, 0 where none was made yet.

    `base` is the FHIR version that was called, `patients` are the ids of those whose data were touched, with spaces
    between them. Nothing of a patient but the ids.
    """

    at_ms: int
    tenant: str
    client: str
    login: str
    role: str
    address: str
    request: str
    base: str
    interaction: str
    type: str
    id: str
    patients: str
    outcome: str
    status: int


PROGRAM: Final = "adt-engine"
LOCAL: Final = "local"


def by_command(at_ms: int, tenant: str, base: str, interaction: str, what: tuple[str, str], patients: str) -> AccessRow:
    """Return the row of a command's action on `what` (type and id), by the operating system's user."""
    who = (PROGRAM, getpass.getuser(), "", LOCAL, "")
    return AccessRow(at_ms, tenant, *who, base, interaction, *what, patients, "done", 0)


# The selected columns, in the order in which `read_row` takes them.
COLUMNS: Final = ", ".join((*AccessRow._fields, "seq", "hash"))
ADD: Final = (
    f"INSERT INTO access (seq, {', '.join(AccessRow._fields)}, hash)"  # noqa: S608 - names of columns, no value
    f" VALUES ({', '.join('?' * (len(AccessRow._fields) + 2))})"
)
ROWS: Final = f"SELECT {COLUMNS} FROM access WHERE seq > ? ORDER BY seq LIMIT ?"  # noqa: S608 - names of columns, no value
BY_SEQ: Final = f"SELECT {COLUMNS} FROM access WHERE tenant=? AND seq=?"  # noqa: S608 - names of columns, no value


class Logged(NamedTuple):
    """A row as it is kept, with its number and hash."""

    access: AccessRow
    seq: int
    hash: bytes


class AccessLogFault(NamedTuple):
    """A row that was changed after it was written, and the fault found."""

    seq: int
    text: str


@dataclass(slots=True)
class Pending:
    """The row of a request that is going to write, kept in the same commit; `kept` once that has happened.

    `entries` are the rows of what is done together: a transaction sets them, and then they are all that is kept.
    """

    access: AccessRow
    kept: bool = False
    entries: tuple[AccessRow, ...] = ()

    def keep(self, connection: Connection, touched: Iterable[str]) -> None:
        """Add the row within the first write of the request, with the patients whose records it has touched."""
        if not self.kept:
            append(connection, self.entries or (touching(self.access, touched),))
            self.kept = True


# The pending row of the request at hand; None where it only reads.
PENDING: Final[ContextVar[Pending | None]] = ContextVar("pending", default=None)


def patients_in(text: bytes) -> Iterator[str]:
    """Yield the ids of the patients whom a JSON text names."""
    part = text[:READ_BYTES]
    for pattern in (PATIENT, REFERENCE):
        for found in pattern.findall(part):
            yield found.decode()


def touching(access: AccessRow, touched: Iterable[str]) -> AccessRow:
    """Return a row with the ids of the patients whose records a write has touched."""
    return access._replace(patients=joined((*access.patients.split(), *sorted(touched))))


def joined(ids: Iterable[str]) -> str:
    """Return ids of patients as a row has them: each once, and not too many."""
    return " ".join(tuple(dict.fromkeys(ids))[:MOST_PATIENTS])


def append(connection: Connection, rows: Iterable[AccessRow]) -> None:
    """Add rows within a write."""
    seq, before = last(connection)
    for row in rows:
        seq, before = seq + 1, chained(before, hashed(seq + 1, row))
        connection.execute(ADD, (seq, *row, before))
        for patient in row.patients.split():
            connection.execute(ADD_PATIENT, (row.tenant, patient, seq))


def last(connection: Connection) -> ChainLink:
    """Return number and hash of the last row; 0 and 32 zero bytes where there is none."""
    return head(connection, HEAD)


def hashed(seq: int, row: AccessRow) -> bytes:
    """Return the hashed bytes of a row."""
    return orjson.dumps((seq, *row))


def logged(connection: Connection, after: int = 0) -> Iterator[Logged]:
    """Yield the rows after a number, oldest first, a part at a time: the log is of any length."""
    while part := connection.execute(ROWS, (after, CHUNK)).fetchall():
        for row in part:
            yield read_row(row)
        after = part[-1][-2]


def read_row(row: tuple[Any, ...]) -> Logged:
    """Return a row of the database as a value."""
    *columns, seq, kept = row
    return Logged(AccessRow(*columns), seq, bytes(kept))


def faults(connection: Connection) -> Iterator[AccessLogFault]:
    """Yield each row that was changed, and each place where one was removed; rows removed at the end are not seen."""
    before = START
    for one in logged(connection):
        link = ChainLink(one.seq, one.hash)
        match break_between(before, link, (hashed(one.seq, one.access),)):
            case Break.MISSING:
                yield AccessLogFault(one.seq, f"the rows from {before.seq + 1} to {one.seq - 1} are gone")
            case Break.CHANGED:
                yield AccessLogFault(one.seq, "the row, or the one before it, was changed")
        before = link
