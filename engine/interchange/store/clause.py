"""Criteria of a search as SQL: what drives by its index, and what probes the records that it names."""

from dataclasses import replace
from typing import Final

from engine.interchange.store.search.criterion import Criterion, Linked, Parameter, ParameterKind, Rank, SearchQuery

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
