"""Searches of a tenant: the most selective criterion drives by its index, the others probe each record it names."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from engine.interchange.store.clause import (
    ALL,
    TABLES,
    Clause,
    drive_clause,
    ranking,
    rows_clause,
    where_clause,
    with_probes,
)
from engine.interchange.store.in_order import measured, page_in_order, total_in_order, walks
from engine.interchange.store.index import ANY_SYSTEM, COUNTED
from engine.interchange.store.search.criterion import ParameterKind, SearchQuery
from engine.interchange.store.search.sort import SortKey
from engine.interchange.store.transaction import StoredVersion, Transaction

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
    for one in records:
        size += len(one.body)
        if len(page) == count or (page and size > MOST_BYTES):
            return tuple(page), True
        page.append(one)
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
    if driver is None or any(one.parameter.kind not in TABLES for one in others):
        where, arguments = where_clause(tenant, search, 0)
        return COUNT.format(where=where), arguments
    drive, driven = drive_clause(tenant, search.type, driver, 0)
    where, arguments = with_probes(ALL, driven, others)
    return COUNT_DRIVEN.format(drive=drive, where=where), arguments
