"""Searches by what many records have: an index has their keys in order, so that a page is read from the first one on.

What leads such a search is measured where several criteria might: a status that few have leads, one that most have does
not.
"""

from dataclasses import replace
from typing import Final

from engine.interchange.store.clause import TABLES, Clause, probe_clause, ranking, rows_clause
from engine.interchange.store.search.criterion import Criterion, ParameterKind, Rank, SearchQuery
from engine.interchange.store.transaction import Transaction

# Rows of one code and system, or of one target, are in the order of their keys.
WALK: Final = "SELECT DISTINCT key FROM {table} AS resource WHERE tenant = ? AND {rows} AND {test}"
BEHIND: Final = " AND key > ?"
PAGE: Final = "{walks} ORDER BY key LIMIT ? OFFSET ?"
COUNT: Final = "SELECT count(*) FROM ({walks}) AS found"
SIZE: Final = "SELECT count(*) FROM (SELECT 1 FROM {table} WHERE tenant = ? AND {rows} AND ({tests}) LIMIT ?) AS found"
FIRST_SYSTEM: Final = "SELECT min(system) FROM token_index WHERE tenant = ? AND parameter = ? AND code = ?"
NEXT_SYSTEM: Final = f"{FIRST_SYSTEM} AND system > ?"
# The test of a code whatever its system, whose rows are in the order of systems first.
ANY_SYSTEM: Final = "code = ?"
# The most walks that are merged into one: alternatives, and systems of a code.
MOST_WALKS: Final = 8
# A criterion with fewer rows leads, whatever its estimate.
FEW: Final = 1_000
# Kinds whose index has such an order.
ORDERED: Final = frozenset({ParameterKind.TOKEN, ParameterKind.REFERENCE})


def measured(transaction: Transaction, search: SearchQuery) -> SearchQuery:
    """Return a search in which a criterion with few rows leads, if every criterion is estimated to leave many."""
    if len(search.criteria) < 2 or any(one.rank < Rank.MANY for one in search.criteria):
        return search
    return replace(search, criteria=tuple(_measured(transaction, one) for one in search.criteria))


def walks(transaction: Transaction, search: SearchQuery) -> tuple[Clause, ...]:
    """Return the queries of keys that each have them in order; empty where no index has, or what leads is selective."""
    if any(one.linked is not None for one in search.criteria):
        return ()
    driver, others = ranking(transaction.tenant, search)
    if driver is None or driver.rank < Rank.SOME or driver.parameter.kind not in ORDERED:
        return ()
    if any(one.parameter.kind not in TABLES for one in others):
        return ()
    tests = [one for test in driver.tests for one in _by_system(transaction, driver, *test)]
    return tuple(_walk(transaction.tenant, driver, one, others) for one in tests) if len(tests) <= MOST_WALKS else ()


def page_in_order(found: tuple[Clause, ...], after: int) -> Clause:
    """Return the query of the keys of a page of some walks; how many and from where come after its arguments."""
    behind = tuple((text + BEHIND, (*arguments, after)) for text, arguments in found) if after else found
    text, arguments = _merged(behind)
    return PAGE.format(walks=text), arguments


def total_in_order(found: tuple[Clause, ...]) -> Clause:
    """Return the query that counts what some walks find."""
    text, arguments = _merged(found)
    return COUNT.format(walks=text), arguments


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
    if test != ANY_SYSTEM:
        return [(test, values)]
    found: list[Clause] = []
    statement, arguments = FIRST_SYSTEM, (transaction.tenant, driver.parameter.rows, *values)
    while len(found) <= MOST_WALKS:
        row = transaction.connection.execute(statement, arguments).fetchone()
        if row[0] is None:
            break
        found.append((f"{ANY_SYSTEM} AND system = ?", (*values, row[0])))
        statement, arguments = NEXT_SYSTEM, (*arguments[: 2 + len(values)], row[0])
    return found


def _walk(tenant: int, driver: Criterion, test: Clause, others: list[Criterion]) -> Clause:
    condition, names = rows_clause(driver.parameter)
    text = WALK.format(table=TABLES[driver.parameter.kind], rows=condition, test=test[0])
    arguments = (tenant, *names, *test[1])
    for one in others:
        condition, values = probe_clause(one)
        text, arguments = f"{text} AND {condition}", arguments + values
    return text, arguments


def _merged(found: tuple[Clause, ...]) -> Clause:
    return " UNION ".join(text for text, _ in found), tuple(value for _, values in found for value in values)
