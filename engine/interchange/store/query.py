"""Searches as SQL: the most selective criterion drives by its index, the others probe each record it names."""

from dataclasses import dataclass
from typing import Final

from engine.interchange.search.criterion import Criterion, Kind, Search
from engine.interchange.store.transaction import Stored, Transaction

# One index table for each kind of parameter that has one; the others are columns of the resource.
TABLES: Final = {
    Kind.STRING: "string_index",
    Kind.TOKEN: "token_index",
    Kind.IDENTIFIER: "identifier_index",
    Kind.DATE: "date_index",
    Kind.REFERENCE: "reference_index",
}
# Names are of this module and of the parameter tables; values are always arguments.
PAGE: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body FROM resource"
    " WHERE {where} ORDER BY key LIMIT ? OFFSET ?"
)
COUNT: Final = "SELECT count(*) FROM resource WHERE {where}"
LIVE: Final = "tenant = ? AND type = ? AND survivor IS NULL"
DRIVE: Final = "SELECT key FROM {table} WHERE tenant = ? AND parameter = ? AND {test}"
DRIVE_BY_COLUMN: Final = "SELECT key FROM resource WHERE tenant = ? AND type = ? AND survivor IS NULL AND {test}"
PROBE: Final = (
    "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.parameter = ? AND ({tests}) LIMIT 1) IS NOT NULL"
)

Arguments = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One page of a search, and how many records match in all."""

    records: tuple[Stored, ...]
    total: int


def find(transaction: Transaction, search: Search, *, count: int, offset: int = 0) -> Found:
    """Return the matches in order of creation; merged-away records are never among them."""
    where, arguments = condition(transaction.tenant, search)
    execute = transaction.connection.execute
    page: tuple[Stored, ...] = ()
    if count:
        rows = execute(PAGE.format(where=where), (*arguments, count, offset)).fetchall()
        page = tuple(Stored(*row) for row in rows)
    if 0 < len(page) < count:
        return Found(page, offset + len(page))
    return Found(page, int(execute(COUNT.format(where=where), arguments).fetchone()[0]))


def condition(tenant: int, search: Search) -> tuple[str, Arguments]:
    """Return the WHERE clause of a search and its arguments."""
    ranked = sorted(search.criteria, key=lambda criterion: criterion.rank)
    arguments: list[str | int]
    if ranked:
        drive, driven = _drive(tenant, search.type, ranked[0])
        parts, arguments = [drive, "survivor IS NULL"], list(driven)
    else:
        parts, arguments = [LIVE], [tenant, search.type]
    for criterion in ranked[1:]:
        test, values = _probe(criterion)
        parts.append(test)
        arguments.extend(values)
    return " AND ".join(parts), tuple(arguments)


def _drive(tenant: int, type_name: str, criterion: Criterion) -> tuple[str, Arguments]:
    table = TABLES.get(criterion.parameter.kind)
    drive, key = (DRIVE_BY_COLUMN, type_name) if table is None else (DRIVE, criterion.parameter.rows)
    selects = [drive.format(table=table, test=test) for test, _ in criterion.tests]
    arguments: list[str | int] = []
    for _, values in criterion.tests:
        arguments += [tenant, key, *values]
    return f"key IN ({' UNION ALL '.join(selects)})", tuple(arguments)


def _probe(criterion: Criterion) -> tuple[str, Arguments]:
    tests = " OR ".join(f"({test})" for test, _ in criterion.tests)
    values = tuple(value for _, arguments in criterion.tests for value in arguments)
    table = TABLES.get(criterion.parameter.kind)
    if table is None:
        return f"({tests})", values
    return PROBE.format(table=table, tests=tests), (criterion.parameter.rows, *values)
