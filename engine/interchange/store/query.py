"""Searches as SQL: the most selective criterion drives by its index, the others probe each record it names."""

from dataclasses import dataclass
from typing import Any, Final

from engine.interchange.search.criterion import Criterion, Kind, Rank, Search
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
BEHIND: Final = " AND key > ?"
PROBE: Final = (
    "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.parameter = ? AND ({tests}) LIMIT 1) IS NOT NULL"
)
PRESENT: Final = "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.parameter = ? LIMIT 1) IS NOT NULL"
ABSENT: Final = "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.parameter = ? LIMIT 1) IS NULL"
# Every record has the values that are columns.
NONE: Final = "1 = 0"
ALL: Final = "1 = 1"

Arguments = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """One page of a search, how many records match in all, and whether some of them stand behind the page."""

    records: tuple[Stored, ...]
    total: int
    more: bool = False


def find(transaction: Transaction, search: Search, *, count: int, offset: int = 0, after: int = 0) -> Found:
    """Return the matches in order of creation, behind the key `after`; merged-away records are never among them."""
    execute = transaction.connection.execute
    rows: list[tuple[Any, ...]] = []
    if count:
        where, arguments = condition(transaction.tenant, search, after)
        # One more than the page, to see whether it is the last.
        rows = execute(PAGE.format(where=where), (*arguments, count + 1, offset)).fetchall()
    page, more = tuple(Stored(*row) for row in rows[:count]), len(rows) > count
    if count and not after and not more and (rows or not offset):
        return Found(page, offset + len(page))
    where, arguments = condition(transaction.tenant, search)
    return Found(page, int(execute(COUNT.format(where=where), arguments).fetchone()[0]), more)


def condition(tenant: int, search: Search, after: int = 0) -> tuple[str, Arguments]:
    """Return the WHERE clause of a search behind a key, and its arguments."""
    ranked = sorted(search.criteria, key=lambda criterion: criterion.rank)
    behind = BEHIND if after else ""
    arguments: list[str | int]
    if ranked and ranked[0].rank < Rank.PROBE:
        drive, driven = _drive(tenant, search.type, ranked.pop(0), behind, after)
        parts, arguments = [drive, "survivor IS NULL"], list(driven)
    else:
        parts, arguments = [LIVE + behind], [tenant, search.type, *((after,) if after else ())]
    for criterion in ranked:
        test, values = _probe(criterion)
        parts.append(test)
        arguments.extend(values)
    return " AND ".join(parts), tuple(arguments)


def _drive(tenant: int, type_name: str, criterion: Criterion, behind: str, after: int) -> tuple[str, Arguments]:
    table = TABLES.get(criterion.parameter.kind)
    drive, key = (DRIVE_BY_COLUMN, type_name) if table is None else (DRIVE, criterion.parameter.rows)
    selects = [drive.format(table=table, test=test) + behind for test, _ in criterion.tests]
    arguments: list[str | int] = []
    for _, values in criterion.tests:
        arguments += [tenant, key, *values]
        if after:
            arguments.append(after)
    return f"key IN ({' UNION ALL '.join(selects)})", tuple(arguments)


def _probe(criterion: Criterion) -> tuple[str, Arguments]:
    table = TABLES.get(criterion.parameter.kind)
    if criterion.missing is not None:
        if table is None:
            return (NONE if criterion.missing else ALL), ()
        return (ABSENT if criterion.missing else PRESENT).format(table=table), (criterion.parameter.rows,)
    tests = " OR ".join(f"({test})" for test, _ in criterion.tests)
    values = tuple(value for _, arguments in criterion.tests for value in arguments)
    if table is None:
        return f"({tests})", values
    return PROBE.format(table=table, tests=tests), (criterion.parameter.rows, *values)
