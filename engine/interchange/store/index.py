"""Index rows of a resource: what searches, uniqueness and re-pointing read; written as the difference to the last."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.sqlite import Connection


class StringRow(NamedTuple):
    """A text of a resource, folded for comparing and as it was written."""

    parameter: str
    folded: str
    exact: str


class TokenRow(NamedTuple):
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
    tokens: frozenset[TokenRow] = frozenset()
    dates: frozenset[DateRow] = frozenset()
    identifiers: frozenset[IdentifierRow] = frozenset()
    references: frozenset[ReferenceRow] = frozenset()


NOTHING: Final = Index()

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


def write_index(connection: Connection, tenant: int, key: int, before: Index, after: Index) -> None:
    """Bring the index rows of `key` from `before` to `after`; identifiers belong to the resource itself."""
    many = connection.executemany
    if after.strings != before.strings:
        many(DROP_STRING, [(key, *row) for row in before.strings - after.strings])
        many(ADD_STRING, [(tenant, key, *row) for row in after.strings - before.strings])
    if after.tokens != before.tokens:
        many(DROP_CODE, [(key, *row) for row in before.tokens - after.tokens])
        many(ADD_CODE, [(tenant, key, *row) for row in after.tokens - before.tokens])
    if after.dates != before.dates:
        many(DROP_DATE, [(key, *row) for row in before.dates - after.dates])
        many(ADD_DATE, [(tenant, key, *row) for row in after.dates - before.dates])
    if after.identifiers != before.identifiers:
        many(DROP_IDENTIFIER, [(key, *row) for row in before.identifiers - after.identifiers])
        many(ADD_IDENTIFIER, [(tenant, key, key, *row) for row in after.identifiers - before.identifiers])
    if after.references != before.references:
        many(DROP_REFERENCE, [(key, *row) for row in before.references - after.references])
        many(ADD_REFERENCE, [(tenant, key, *row) for row in after.references - before.references])
