"""Index rows of a resource: what searches, uniqueness and re-pointing read; written as the difference to the last."""

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from engine.database.connection import Connection

T = TypeVar("T", bound=tuple[Any, ...])


class StringRow(NamedTuple):
    """A text of a resource, folded for comparing and as it was written."""

    parameter: str
    folded: str
    exact: str


class TokenIndexRow(NamedTuple):
    """A code of a resource; `system` is empty where it has none."""

    parameter: str
    code: str
    system: str


class DateRow(NamedTuple):
    """A date or period: first and last millisecond since 1970, UTC."""

    parameter: str
    low: int
    high: int


class IdentifierRow(NamedTuple):
    """An identifier; `record_number` is 1 for an external medical record number, which is unique in the tenant."""

    parameter: str
    value: str
    system: str
    record_number: int


class ReferenceRow(NamedTuple):
    """A reference to `Type/id`; `parameter` is empty where no search parameter names its element."""

    parameter: str
    target: str


@dataclass(frozen=True, slots=True)
class Index:
    """All index rows of one resource."""

    strings: frozenset[StringRow] = frozenset()
    tokens: frozenset[TokenIndexRow] = frozenset()
    dates: frozenset[DateRow] = frozenset()
    identifiers: frozenset[IdentifierRow] = frozenset()
    references: frozenset[ReferenceRow] = frozenset()


NOTHING: Final = Index()
# Rows whose number of records per code is kept, as very many share one code: per system, and for any system.
COUNTED: Final = frozenset({"RequestGroup.status"})
ANY_SYSTEM: Final = "*"

ADD_STRING: Final = "INSERT INTO string_index (tenant, key, parameter, folded, exact) VALUES (?, ?, ?, ?, ?)"
DROP_STRING: Final = "DELETE FROM string_index WHERE key=? AND parameter=? AND folded=? AND exact=?"
ADD_CODE: Final = "INSERT INTO token_index (tenant, key, parameter, code, system) VALUES (?, ?, ?, ?, ?)"
DROP_CODE: Final = "DELETE FROM token_index WHERE key=? AND parameter=? AND code=? AND system=?"
ADD_DATE: Final = "INSERT INTO date_index (tenant, key, parameter, low, high) VALUES (?, ?, ?, ?, ?)"
DROP_DATE: Final = "DELETE FROM date_index WHERE key=? AND parameter=? AND low=? AND high=?"
ADD_IDENTIFIER: Final = (
    "INSERT INTO identifier_index (tenant, key, origin, parameter, value, system, record_number)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
DROP_IDENTIFIER: Final = (
    "DELETE FROM identifier_index WHERE origin=? AND parameter=? AND value=? AND system=? AND record_number=?"
)
ADD_REFERENCE: Final = "INSERT INTO reference_index (tenant, key, parameter, target) VALUES (?, ?, ?, ?)"
DROP_REFERENCE: Final = "DELETE FROM reference_index WHERE key=? AND parameter=? AND target=?"

COUNT_CODE: Final = (
    "INSERT INTO token_count (tenant, parameter, code, system, records) VALUES (?, ?, ?, ?, ?)"
    " ON CONFLICT (tenant, parameter, code, system) DO UPDATE SET records=token_count.records+excluded.records"
)

# How many records have a code, of one system or of any ('*'): made of the rows that were there before it.
COUNTS: Final = """
CREATE TABLE token_count (
    tenant INTEGER NOT NULL,
    parameter TEXT NOT NULL,
    code TEXT NOT NULL,
    system TEXT NOT NULL,
    records INTEGER NOT NULL,
    PRIMARY KEY (tenant, parameter, code, system)
) STRICT, WITHOUT ROWID;
INSERT INTO token_count (tenant, parameter, code, system, records)
    SELECT tenant, parameter, code, system, count(*) FROM token_index WHERE parameter='RequestGroup.status'
    GROUP BY tenant, parameter, code, system;
INSERT INTO token_count (tenant, parameter, code, system, records)
    SELECT tenant, parameter, code, '*', count(DISTINCT key) FROM token_index WHERE parameter='RequestGroup.status'
    GROUP BY tenant, parameter, code;
"""

STRINGS: Final = "SELECT parameter, folded, exact FROM string_index WHERE key=?"
TOKENS: Final = "SELECT parameter, code, system FROM token_index WHERE key=?"
DATES: Final = "SELECT parameter, low, high FROM date_index WHERE key=?"
IDENTIFIERS: Final = "SELECT parameter, value, system, record_number FROM identifier_index WHERE origin=?"
ROWS_OF_REFERENCES: Final = "SELECT parameter, target FROM reference_index WHERE key=?"


def index_rows(connection: Connection, key: int) -> Index:
    """Return the rows that a live resource has."""
    execute = connection.execute
    return Index(
        strings=frozenset(StringRow(*row) for row in execute(STRINGS, (key,))),
        tokens=frozenset(TokenIndexRow(*row) for row in execute(TOKENS, (key,))),
        dates=frozenset(DateRow(*row) for row in execute(DATES, (key,))),
        identifiers=frozenset(IdentifierRow(*row) for row in execute(IDENTIFIERS, (key,))),
        references=frozenset(ReferenceRow(*row) for row in execute(ROWS_OF_REFERENCES, (key,))),
    )


def write_index(connection: Connection, tenant: int, key: int, before: Index, after: Index) -> None:
    """Bring the index rows of `key` from `before` to `after`; identifiers belong to the resource itself."""
    own = ((tenant, key), (key,))
    _write(connection, ADD_STRING, DROP_STRING, before.strings, after.strings, *own)
    _write(connection, ADD_CODE, DROP_CODE, before.tokens, after.tokens, *own)
    _count(connection, tenant, before.tokens, after.tokens)
    _write(connection, ADD_DATE, DROP_DATE, before.dates, after.dates, *own)
    _write(connection, ADD_REFERENCE, DROP_REFERENCE, before.references, after.references, *own)
    carried = ((tenant, key, key), (key,))
    _write(connection, ADD_IDENTIFIER, DROP_IDENTIFIER, before.identifiers, after.identifiers, *carried)


def counted(tokens: frozenset[TokenIndexRow]) -> set[TokenIndexRow]:
    """Return the counted codes of a record, by their system and by any."""
    own = {row for row in tokens if row.parameter in COUNTED}
    return own | {row._replace(system=ANY_SYSTEM) for row in own}


def _count(
    connection: Connection, tenant: int, before: frozenset[TokenIndexRow], after: frozenset[TokenIndexRow]
) -> None:
    gone, new = counted(before), counted(after)
    if gone != new:
        changes = [(row, -1) for row in gone - new] + [(row, 1) for row in new - gone]
        connection.executemany(COUNT_CODE, [(tenant, *row, change) for row, change in changes])


def _write(
    connection: Connection,
    add: str,
    drop: str,
    before: frozenset[T],
    after: frozenset[T],
    added: tuple[int, ...],
    dropped: tuple[int, ...],
) -> None:
    """Add and drop the changed rows of one table, each after the columns of its owner."""
    if gone := before - after:
        connection.executemany(drop, [(*dropped, *row) for row in gone])
    if new := after - before:
        connection.executemany(add, [(*added, *row) for row in new])
