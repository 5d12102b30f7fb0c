"""Searches of a tenant as SQL: the most selective criterion drives by its index or in its order, the others probe.

What leads such a search is measured where several criteria might: a status that few have leads, one that most have does
not.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from engine.interchange.store.index import ANY_SYSTEM, COUNTED
from engine.interchange.store.search.criterion import (
    Criterion,
    Linked,
    Parameter,
    ParameterKind,
    Rank,
    SearchQuery,
    SortKey,
)
from engine.interchange.store.transaction import StoredVersion, Transaction

# One index table for each kind of parameter that has one; the others are columns of the resource.
TABLES: Final = {
    ParameterKind.STRING: "string_index",
    ParameterKind.TOKEN: "token_index",
    ParameterKind.CONTACT: "token_index",
    ParameterKind.URI: "token_index",
    ParameterKind.CANONICAL: "token_index",
    ParameterKind.IDENTIFIER: "identifier_index",
    ParameterKind.DATE: "date_index",
    ParameterKind.REFERENCE: "reference_index",
}
# Names are of this module and of the parameter tables; values are always arguments.
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


def where_clause(tenant: int, search: SearchQuery, after: int) -> Clause:
    """Return the condition on the records of a search behind a key, and its arguments."""
    driver, others = ranking(tenant, search)
    if driver is not None:
        drive, driven = drive_clause(tenant, search.type, driver, after)
        return with_probes(f"key IN ({drive}) AND survivor IS NULL", driven, others)
    if after:
        return with_probes(LIVE + BEHIND, (tenant, search.type, after), others)
    return with_probes(LIVE, (tenant, search.type), others)


def ranking(tenant: int, search: SearchQuery) -> tuple[Criterion | None, list[Criterion]]:
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
        where, arguments = where_clause(tenant, search, 0)
        if linked.rows:
            test = REFERRED.format(at=len(type_name) + 2, low=f"{type_name}/", high=f"{type_name}0", where=where)
            tests.append((test, (linked.rows, *arguments)))
        else:
            tests.append((REFERRING.format(type=search.type, where=where), arguments))
    return replace(criterion, tests=tuple(tests), linked=None)


def with_probes(where: str, arguments: Arguments, criteria: list[Criterion]) -> Clause:
    """Return a condition with those of further criteria on the records that it leaves."""
    for criterion in criteria:
        test, values = probe_clause(criterion)
        where, arguments = f"{where} AND {test}", arguments + values
    return where, arguments


def drive_clause(tenant: int, type_name: str, criterion: Criterion, after: int) -> Clause:
    """Return the query of the keys that a criterion finds behind a key; some of them twice."""
    table = TABLES.get(criterion.parameter.kind)
    named: Clause = ("", (type_name,)) if table is None else rows_clause(criterion.parameter)
    drive = DRIVE_BY_COLUMN if table is None else DRIVE
    behind, place = (BEHIND, (after,)) if after else ("", ())
    selects = (drive.format(table=table, rows=named[0], test=test) + behind for test, _ in criterion.tests)
    arguments = tuple(value for _, values in criterion.tests for value in (tenant, *named[1], *values, *place))
    return " UNION ALL ".join(selects), arguments


def probe_clause(criterion: Criterion) -> Clause:
    """Return the condition on a record that it meets a criterion, and its arguments."""
    table = TABLES.get(criterion.parameter.kind)
    if criterion.missing is not None:
        if table is None:
            return (NONE if criterion.missing else ALL), ()
        rows, names = rows_clause(criterion.parameter)
        return (ABSENT if criterion.missing else PRESENT).format(table=table, rows=rows), names
    tests = " OR ".join(f"({test})" for test, _ in criterion.tests)
    values = tuple(value for _, arguments in criterion.tests for value in arguments)
    if table is None:
        return f"({tests})", values
    rows, names = rows_clause(criterion.parameter)
    return PROBE.format(table=table, rows=rows, tests=tests), (*names, *values)


def rows_clause(parameter: Parameter) -> Clause:
    """Return the condition on the index rows that a parameter reads, and its arguments."""
    if parameter.also:
        names = (parameter.rows, *parameter.also)
        return f"parameter IN ({', '.join('?' * len(names))})", names
    if parameter.kind is ParameterKind.CONTACT and parameter.system:
        return "parameter = ? AND system = ?", (parameter.rows, parameter.system)
    return "parameter = ?", (parameter.rows,)


# Rows of one code and system, or of one target, are in the order of their keys.
WALK: Final = "SELECT DISTINCT key FROM {table} AS resource WHERE tenant = ? AND {rows} AND {test}"
WALKED_PAGE: Final = "{walks} ORDER BY key LIMIT ? OFFSET ?"
WALKED_COUNT: Final = "SELECT count(*) FROM ({walks}) AS found"
SIZE: Final = "SELECT count(*) FROM (SELECT 1 FROM {table} WHERE tenant = ? AND {rows} AND ({tests}) LIMIT ?) AS found"
FIRST_SYSTEM: Final = "SELECT min(system) FROM token_index WHERE tenant = ? AND parameter = ? AND code = ?"
NEXT_SYSTEM: Final = f"{FIRST_SYSTEM} AND system > ?"
# The test of a code whatever its system, whose rows are in the order of systems first.
OF_ANY_SYSTEM: Final = "code = ?"
# The most walks that are merged into one: alternatives, and systems of a code.
MOST_WALKS: Final = 8
# A criterion with fewer rows leads, whatever its estimate.
FEW: Final = 1_000
# Kinds whose index has such an order.
ORDERED: Final = frozenset({ParameterKind.TOKEN, ParameterKind.REFERENCE})


def measured(transaction: Transaction, search: SearchQuery) -> SearchQuery:
    """Return a search in which a criterion with few rows leads, if every criterion is estimated to leave many."""
    if len(search.criteria) < 2 or any(criterion.rank < Rank.MANY for criterion in search.criteria):
        return search
    return replace(search, criteria=tuple(_measured(transaction, criterion) for criterion in search.criteria))


def walks(transaction: Transaction, search: SearchQuery) -> tuple[Clause, ...]:
    """Return the queries of keys that each have them in order; empty where no index has, or what leads is selective."""
    if any(criterion.linked is not None for criterion in search.criteria):
        return ()
    driver, others = ranking(transaction.tenant, search)
    if driver is None or driver.rank < Rank.SOME or driver.parameter.kind not in ORDERED:
        return ()
    if any(other.parameter.kind not in TABLES for other in others):
        return ()
    tests = [one for test in driver.tests for one in _by_system(transaction, driver, *test)]
    return tuple(_walk(transaction.tenant, driver, one, others) for one in tests) if len(tests) <= MOST_WALKS else ()


def page_in_order(found: tuple[Clause, ...], after: int) -> Clause:
    """Return the query of the keys of a page of some walks; how many and from where come after its arguments."""
    behind = tuple((text + BEHIND, (*arguments, after)) for text, arguments in found) if after else found
    text, arguments = _merged(behind)
    return WALKED_PAGE.format(walks=text), arguments


def total_in_order(found: tuple[Clause, ...]) -> Clause:
    """Return the query that counts what some walks find."""
    text, arguments = _merged(found)
    return WALKED_COUNT.format(walks=text), arguments


def _measured(transaction: Transaction, criterion: Criterion) -> Criterion:
    table = TABLES.get(criterion.parameter.kind)
    if table is None or criterion.missing is not None or criterion.linked is not None:
        return criterion
    condition, names = rows_clause(criterion.parameter)
    tests = " OR ".join(f"({test})" for test, _ in criterion.tests)
    values = tuple(value for _, arguments in criterion.tests for value in arguments)
    statement = SIZE.format(table=table, rows=condition, tests=tests)
    row = transaction.connection.execute(statement, (transaction.tenant, *names, *values, FEW)).fetchone()
    return replace(criterion, rank=Rank.SOME) if row[0] < FEW else criterion


def _by_system(transaction: Transaction, driver: Criterion, test: str, values: tuple[str | int, ...]) -> list[Clause]:
    """Return a test as tests whose rows are in order: of a code, for each system that it has here."""
    if test != OF_ANY_SYSTEM:
        return [(test, values)]
    found: list[Clause] = []
    statement, arguments = FIRST_SYSTEM, (transaction.tenant, driver.parameter.rows, *values)
    while len(found) <= MOST_WALKS:
        row = transaction.connection.execute(statement, arguments).fetchone()
        if row[0] is None:
            break
        found.append((f"{OF_ANY_SYSTEM} AND system = ?", (*values, row[0])))
        statement, arguments = NEXT_SYSTEM, (*arguments[: 2 + len(values)], row[0])
    return found


def _walk(tenant: int, driver: Criterion, test: Clause, others: list[Criterion]) -> Clause:
    condition, names = rows_clause(driver.parameter)
    text = WALK.format(table=TABLES[driver.parameter.kind], rows=condition, test=test[0])
    arguments = (tenant, *names, *test[1])
    for other in others:
        condition, values = probe_clause(other)
        text, arguments = f"{text} AND {condition}", arguments + values
    return text, arguments


def _merged(found: tuple[Clause, ...]) -> Clause:
    return " UNION ".join(text for text, _ in found), tuple(value for _, values in found for value in values)


# A page of large resources has fewer than requested: documents may be megabytes each.
MOST_BYTES: Final = 16_777_216
# Names are of this module and of the parameter tables; values are always arguments.
PAGE: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body FROM resource"
    " WHERE {where} ORDER BY key LIMIT ? OFFSET ?"
)
PAGE_OF_KEYS: Final = (
    "SELECT key, type, id, version, updated_ms, survivor, body FROM resource WHERE key IN ({keys}) ORDER BY key"
)
# Only keys are sorted, so that bodies need no room for it. Of several values the least counts, or the greatest.
SORTED: Final = "SELECT key FROM resource WHERE {where} ORDER BY {by}, id LIMIT ? OFFSET ?"
SORT_KEY: Final = (
    "(SELECT {least}(i.{column}) FROM {table} AS i WHERE i.key = resource.key AND i.{rows}) {direction} NULLS LAST"
)
COLUMNS: Final = {ParameterKind.STRING: "folded", ParameterKind.TOKEN: "code", ParameterKind.DATE: "low"}
LAST: Final = "high"
COUNT: Final = "SELECT count(*) FROM resource WHERE {where}"
KEPT_COUNT: Final = (
    "SELECT coalesce(sum(records), 0) FROM token_count WHERE tenant = ? AND parameter = ? AND code = ? AND system = ?"
)
# Tests of one code, with the value for a system that they do not name.
COUNTED_BY: Final[dict[str, tuple[str, ...]]] = {"code = ?": (ANY_SYSTEM,), "code = ? AND system = ?": ()}
# Index rows lead to live records only, so that their matches are counted without reading the records.
COUNT_DRIVEN: Final = "SELECT count(*) FROM (SELECT DISTINCT key FROM ({drive}) AS driven) AS resource WHERE {where}"


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of a search, the total of matches, and whether there are more after it."""

    records: tuple[StoredVersion, ...]
    total: int
    more: bool = False


def find(
    transaction: Transaction,
    search: SearchQuery,
    *,
    count: int,
    offset: int = 0,
    after: int = 0,
    order: tuple[SortKey, ...] = (),
    counted: bool = True,
) -> SearchPage:
    """Return the matches in order of creation, behind the key `after`; merged-away records are never among them.

    With an `order` they come in that, and those that are equal by id. There are fewer than `count` where they are
    large: one at least, and no more of them than `MOST_BYTES`. The total of what is not `counted` is 0.
    """
    execute = transaction.connection.execute
    page: tuple[StoredVersion, ...] = ()
    more = False
    search = measured(transaction, search)
    ordered = walks(transaction, search)
    if count and order:
        statement, arguments = sorted_statement(transaction.tenant, search, order)
        keys = execute(statement, (*arguments, count + 1, offset)).fetchall()
        page, more = fitting((transaction.by_key(key) for (key,) in keys), count)
    elif count:
        statement, arguments = page_statement(transaction.tenant, search, after, ordered)
        # One more than the page, to see whether it is the last.
        with closing(execute(statement, (*arguments, count + 1, offset))) as rows:
            page, more = fitting((StoredVersion(*row) for row in rows), count)
    if not counted:
        return SearchPage(page, 0, more)
    if count and not after and not more and (page or not offset):
        return SearchPage(page, offset + len(page))
    statement, arguments = (
        kept_total(transaction.tenant, search)
        or (total_in_order(ordered) if ordered else None)
        or total_statement(transaction.tenant, search)
    )
    return SearchPage(page, int(execute(statement, arguments).fetchone()[0]), more)


def fitting(records: Iterable[StoredVersion], count: int) -> tuple[tuple[StoredVersion, ...], bool]:
    """Return the records of one page, of at most `count`, and whether there are more."""
    page: list[StoredVersion] = []
    size = 0
    for record in records:
        size += len(record.body)
        if len(page) == count or (page and size > MOST_BYTES):
            return tuple(page), True
        page.append(record)
    return tuple(page), False


def page_statement(tenant: int, search: SearchQuery, after: int = 0, ordered: tuple[Clause, ...] = ()) -> Clause:
    """Return the query of a page behind a key, and its arguments; how many records and from where come after them.

    `ordered` are the walks that find their keys in order, where there are such.
    """
    if ordered:
        keys, arguments = page_in_order(ordered, after)
        return PAGE_OF_KEYS.format(keys=keys), arguments
    where, arguments = where_clause(tenant, search, after)
    return PAGE.format(where=where), arguments


def sorted_statement(tenant: int, search: SearchQuery, order: tuple[SortKey, ...]) -> Clause:
    """Return the query of the keys of a page in an order; how many and from where come after its arguments."""
    where, arguments = where_clause(tenant, search, 0)
    keys = [_sort_key(one) for one in order]
    by = ", ".join(text for text, _ in keys)
    return SORTED.format(where=where, by=by), (*arguments, *(value for _, values in keys for value in values))


def _sort_key(key: SortKey) -> Clause:
    kind, direction = key.parameter.kind, "DESC" if key.descending else "ASC"
    table = TABLES.get(kind)
    if table is None:
        return f"{'id' if kind is ParameterKind.ID else 'updated_ms'} {direction}", ()
    rows, names = rows_clause(key.parameter)
    least = "max" if key.descending else "min"
    column = LAST if kind is ParameterKind.DATE and key.descending else COLUMNS[kind]
    return SORT_KEY.format(least=least, column=column, table=table, rows=rows, direction=direction), names


def is_kept(search: SearchQuery) -> bool:
    """Return whether the only criterion is one code whose number of records is kept."""
    if len(search.criteria) != 1 or search.criteria[0].parameter.rows not in COUNTED:
        return False
    tests = search.criteria[0].tests
    return len(tests) == 1 and tests[0][0] in COUNTED_BY


def kept_total(tenant: int, search: SearchQuery) -> Clause | None:
    """Return the query of how many records have a code, where that is kept; None where it is not."""
    if not is_kept(search):
        return None
    (criterion,) = search.criteria
    ((test, values),) = criterion.tests
    return KEPT_COUNT, (tenant, criterion.parameter.rows, *values, *COUNTED_BY[test])


def total_statement(tenant: int, search: SearchQuery) -> Clause:
    """Return the query that counts all matches, and its arguments."""
    driver, others = ranking(tenant, search)
    if driver is None or any(other.parameter.kind not in TABLES for other in others):
        where, arguments = where_clause(tenant, search, 0)
        return COUNT.format(where=where), arguments
    drive, driven = drive_clause(tenant, search.type, driver, 0)
    where, arguments = with_probes(ALL, driven, others)
    return COUNT_DRIVEN.format(drive=drive, where=where), arguments
