"""Searches as SQL: the most selective criterion drives by its index, the others probe each record it names."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from engine.interchange.search.criterion import Criterion, Kind, Linked, Parameter, Rank, Search
from engine.interchange.search.sort import SortKey
from engine.interchange.store.transaction import Stored, Transaction

# One index table for each kind of parameter that has one; the others are columns of the resource.
TABLES: Final = {
    Kind.STRING: "string_index",
    Kind.TOKEN: "token_index",
    Kind.CONTACT: "token_index",
    Kind.URI: "token_index",
    Kind.CANONICAL: "token_index",
    Kind.IDENTIFIER: "identifier_index",
    Kind.DATE: "date_index",
    Kind.REFERENCE: "reference_index",
}
# A page has fewer resources than asked for where they are large: documents may be megabytes each.
MOST_BYTES: Final = 16_777_216
# Names are of this module and of the parameter tables; values are always arguments.
PAGE: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body FROM resource"
    " WHERE {where} ORDER BY key LIMIT ? OFFSET ?"
)
# Only keys are sorted, so that bodies need no room for it. Of several values the least counts, or the greatest.
SORTED: Final = "SELECT key FROM resource WHERE {where} ORDER BY {by}, id LIMIT ? OFFSET ?"
SORT_KEY: Final = (
    "(SELECT {least}(i.{column}) FROM {table} AS i WHERE i.key = resource.key AND i.{rows}) {direction} NULLS LAST"
)
COLUMNS: Final = {Kind.STRING: "folded", Kind.TOKEN: "code", Kind.DATE: "low"}
LAST: Final = "high"
COUNT: Final = "SELECT count(*) FROM resource WHERE {where}"
# Index rows lead to live records only, so that what they drive is counted without a look at the records.
COUNT_DRIVEN: Final = "SELECT count(*) FROM (SELECT DISTINCT key FROM ({drive}) AS driven) AS resource WHERE {where}"
LIVE: Final = "tenant = ? AND type = ? AND survivor IS NULL"
DRIVE: Final = "SELECT key FROM {table} WHERE tenant = ? AND {rows} AND {test}"
DRIVE_BY_COLUMN: Final = "SELECT key FROM resource WHERE tenant = ? AND type = ? AND survivor IS NULL AND {test}"
BEHIND: Final = " AND key > ?"
PROBE: Final = "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.{rows} AND ({tests}) LIMIT 1) IS NOT NULL"
PRESENT: Final = "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.{rows} LIMIT 1) IS NOT NULL"
ABSENT: Final = "(SELECT 1 FROM {table} AS i WHERE i.key = resource.key AND i.{rows} LIMIT 1) IS NULL"
# Tests of linked resources, of the names of types: which refer to what is found, and to which what is found refers.
REFERRING: Final = "target IN (SELECT '{type}/' || id FROM resource WHERE {where})"
REFERRED: Final = (
    "id IN (SELECT substr(i.target, {at}) FROM reference_index AS i WHERE i.parameter = ?"
    " AND i.target > '{low}' AND i.target < '{high}' AND i.key IN (SELECT key FROM resource WHERE {where}))"
)
# Every record has the values that are columns.
NONE: Final = "1 = 0"
ALL: Final = "1 = 1"

Arguments = tuple[str | int, ...]
Clause = tuple[str, Arguments]


@dataclass(frozen=True, slots=True)
class Found:
    """One page of a search, how many records match in all, and whether some of them stand behind the page."""

    records: tuple[Stored, ...]
    total: int
    more: bool = False


def find(
    transaction: Transaction,
    search: Search,
    *,
    count: int,
    offset: int = 0,
    after: int = 0,
    order: tuple[SortKey, ...] = (),
    counted: bool = True,
) -> Found:
    """Return the matches in order of creation, behind the key `after`; merged-away records are never among them.

    With an `order` they come in that, and those that are equal by id. There are fewer than `count` where they are
    large: one at least, and no more of them than `MOST_BYTES`. The total of what is not `counted` is 0.
    """
    execute = transaction.connection.execute
    page: tuple[Stored, ...] = ()
    more = False
    if count and order:
        statement, arguments = sorted_statement(transaction.tenant, search, order)
        keys = execute(statement, (*arguments, count + 1, offset)).fetchall()
        page, more = fitting((transaction.by_key(key) for (key,) in keys), count)
    elif count:
        statement, arguments = page_statement(transaction.tenant, search, after)
        # One more than the page, to see whether it is the last.
        with closing(execute(statement, (*arguments, count + 1, offset))) as rows:
            page, more = fitting((Stored(*row) for row in rows), count)
    if not counted:
        return Found(page, 0, more)
    if count and not after and not more and (page or not offset):
        return Found(page, offset + len(page))
    statement, arguments = total_statement(transaction.tenant, search)
    return Found(page, int(execute(statement, arguments).fetchone()[0]), more)


def fitting(records: Iterable[Stored], count: int) -> tuple[tuple[Stored, ...], bool]:
    """Return the records of one page, of at most `count`, and whether there are more."""
    page: list[Stored] = []
    size = 0
    for one in records:
        size += len(one.body)
        if len(page) == count or (page and size > MOST_BYTES):
            return tuple(page), True
        page.append(one)
    return tuple(page), False


def page_statement(tenant: int, search: Search, after: int = 0) -> Clause:
    """Return the query of a page behind a key, and its arguments; how many records and from where come after them."""
    where, arguments = _where(tenant, search, after)
    return PAGE.format(where=where), arguments


def sorted_statement(tenant: int, search: Search, order: tuple[SortKey, ...]) -> Clause:
    """Return the query of the keys of a page in an order; how many and from where come after its arguments."""
    where, arguments = _where(tenant, search, 0)
    keys = [_sort_key(one) for one in order]
    by = ", ".join(text for text, _ in keys)
    return SORTED.format(where=where, by=by), (*arguments, *(value for _, values in keys for value in values))


def _sort_key(key: SortKey) -> Clause:
    kind, direction = key.parameter.kind, "DESC" if key.descending else "ASC"
    table = TABLES.get(kind)
    if table is None:
        return f"{'id' if kind is Kind.ID else 'updated_ms'} {direction}", ()
    rows, names = _rows(key.parameter)
    least = "max" if key.descending else "min"
    column = LAST if kind is Kind.DATE and key.descending else COLUMNS[kind]
    return SORT_KEY.format(least=least, column=column, table=table, rows=rows, direction=direction), names


def total_statement(tenant: int, search: Search) -> Clause:
    """Return the query that counts all matches, and its arguments."""
    driver, others = _ranked(tenant, search)
    if driver is None or any(one.parameter.kind not in TABLES for one in others):
        where, arguments = _where(tenant, search, 0)
        return COUNT.format(where=where), arguments
    drive, driven = _drive(tenant, search.type, driver, 0)
    where, arguments = _with_probes(ALL, driven, others)
    return COUNT_DRIVEN.format(drive=drive, where=where), arguments


def _where(tenant: int, search: Search, after: int) -> Clause:
    driver, others = _ranked(tenant, search)
    if driver is not None:
        drive, driven = _drive(tenant, search.type, driver, after)
        return _with_probes(f"key IN ({drive}) AND survivor IS NULL", driven, others)
    if after:
        return _with_probes(LIVE + BEHIND, (tenant, search.type, after), others)
    return _with_probes(LIVE, (tenant, search.type), others)


def _ranked(tenant: int, search: Search) -> tuple[Criterion | None, list[Criterion]]:
    """Return the criterion that drives, None where none can, and all others."""
    criteria = [
        one if one.linked is None else _resolved(tenant, search.type, one, one.linked) for one in search.criteria
    ]
    ranked = sorted(criteria, key=lambda criterion: criterion.rank)
    if ranked and ranked[0].rank < Rank.PROBE:
        return ranked[0], ranked[1:]
    return None, ranked


def _resolved(tenant: int, type_name: str, criterion: Criterion, linked: Linked) -> Criterion:
    """Return a criterion on linked resources with its tests: by what it refers to, or by what refers to it."""
    tests = []
    for search in linked.searches:
        where, arguments = _where(tenant, search, 0)
        if linked.rows:
            test = REFERRED.format(at=len(type_name) + 2, low=f"{type_name}/", high=f"{type_name}0", where=where)
            tests.append((test, (linked.rows, *arguments)))
        else:
            tests.append((REFERRING.format(type=search.type, where=where), arguments))
    return replace(criterion, tests=tuple(tests), linked=None)


def _with_probes(where: str, arguments: Arguments, criteria: list[Criterion]) -> Clause:
    for criterion in criteria:
        test, values = _probe(criterion)
        where, arguments = f"{where} AND {test}", arguments + values
    return where, arguments


def _drive(tenant: int, type_name: str, criterion: Criterion, after: int) -> Clause:
    """Return the query of the keys that a criterion finds behind a key; some of them twice."""
    table = TABLES.get(criterion.parameter.kind)
    named: Clause = ("", (type_name,)) if table is None else _rows(criterion.parameter)
    drive = DRIVE_BY_COLUMN if table is None else DRIVE
    behind, place = (BEHIND, (after,)) if after else ("", ())
    selects = (drive.format(table=table, rows=named[0], test=test) + behind for test, _ in criterion.tests)
    arguments = tuple(value for _, values in criterion.tests for value in (tenant, *named[1], *values, *place))
    return " UNION ALL ".join(selects), arguments


def _probe(criterion: Criterion) -> Clause:
    table = TABLES.get(criterion.parameter.kind)
    if criterion.missing is not None:
        if table is None:
            return (NONE if criterion.missing else ALL), ()
        rows, names = _rows(criterion.parameter)
        return (ABSENT if criterion.missing else PRESENT).format(table=table, rows=rows), names
    tests = " OR ".join(f"({test})" for test, _ in criterion.tests)
    values = tuple(value for _, arguments in criterion.tests for value in arguments)
    if table is None:
        return f"({tests})", values
    rows, names = _rows(criterion.parameter)
    return PROBE.format(table=table, rows=rows, tests=tests), (*names, *values)


def _rows(parameter: Parameter) -> Clause:
    """Return the condition on the index rows that a parameter reads, and its arguments."""
    if parameter.also:
        names = (parameter.rows, *parameter.also)
        return f"parameter IN ({', '.join('?' * len(names))})", names
    if parameter.kind is Kind.CONTACT and parameter.system:
        return "parameter = ? AND system = ?", (parameter.rows, parameter.system)
    return "parameter = ?", (parameter.rows,)
