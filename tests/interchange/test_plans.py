"""The plans of searches: each form of each parameter of each type reads the rows that it asks for and no others."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.database.connection import Connection
from engine.fhir.schema import FhirVersion
from engine.interchange.rest.binary.content import IN_CHART_OF, REFERRING
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.search import linked_criteria
from engine.interchange.store import job, query
from engine.interchange.store.search.criterion import ORDERED, Parameter, ParameterKind, parse_sort
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.store import Store

MISSING = ((":missing", "true"), (":missing", "false"))
CODES = tuple(("", value) for value in ("a", "s|a", "|a", "s|", "a,s|b,t|"))
DAYS = ("2025-07-01", "2025-07", "ge2025", "gt2025", "le2025", "lt2025", "2025-07-01,2025-07-02", "lt2025,gt2026")
# Every form of a criterion by the kind of its parameter: modifier and value.
FORMS = {
    ParameterKind.ID: (("", "a"), ("", "a,b"), *MISSING),
    ParameterKind.STRING: (*itertools.product(("", ":exact", ":contains"), ("a", "a,b")), *MISSING),
    ParameterKind.TOKEN: (*CODES, *MISSING),
    ParameterKind.CONTACT: (*(("", value) for value in ("a", "a,b")), *MISSING),
    ParameterKind.IDENTIFIER: (*CODES, *MISSING),
    ParameterKind.DATE: (*(("", day) for day in DAYS), *MISSING),
    ParameterKind.UPDATED: (*(("", day) for day in DAYS), *MISSING),
    ParameterKind.REFERENCE: (("", "a"), ("", "a,b"), *MISSING),
    ParameterKind.URI: (("", "urn:a"), ("", "urn:a,urn:b"), *MISSING),
    ParameterKind.CANONICAL: (("", "a"), ("", "http://x/a|1,b"), *MISSING),
}
# Steps that say how parts of a query belong together and read nothing. A total takes each key
# that drives it once.
FRAME = re.compile(r"COMPOUND QUERY|LEFT-MOST SUBQUERY|UNION ALL|(LIST|CORRELATED SCALAR) SUBQUERY \d+")
ONCE = re.compile(r"CO-ROUTINE (resource|driven)|USE TEMP B-TREE FOR DISTINCT")
# What may be read: records by key, and below tenant and type by id, update or key; rows of an index by the values of a
# parameter, and by a key. Only :contains, and what is in no other index, reads all values of a parameter.
READS = re.compile(
    r"SEARCH (resource USING INTEGER PRIMARY KEY \(rowid=\?\)"
    r"|resource USING (COVERING )?INDEX resource_\w+ \(tenant=\? AND type=\?( AND (id=\?|(updated_ms|key)[<>].*))?\)"
    r"|\w+_index USING COVERING INDEX \w+ \(tenant=\? AND (parameter|target)=\? AND .*\)"
    r"|i USING (PRIMARY KEY|COVERING INDEX \w+) \(key=\? AND parameter=\?.*\))"
)
EVERY_VALUE = "SEARCH string_index USING COVERING INDEX string_by_value (tenant=? AND parameter=?)"
EVERY_RECORD = re.compile(r"SEARCH resource USING .* \(tenant=\? AND type=\?\)")

Pairs = tuple[tuple[str, str], ...]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A connection to an empty store."""
    path: Path = tmp_path_factory.mktemp("plans") / "s.db"
    store = Store(path, ["t"], lambda: datetime(2026, 1, 1, tzinfo=UTC), {})
    yield store.reader()
    store.close()


def forms(parameters: Iterable[Parameter]) -> list[tuple[str, str]]:
    """Return every form of some parameters, as pairs of a query."""
    return [(parameter.name + modifier, value) for parameter in parameters for modifier, value in _forms(parameter)]


def _forms(of: Parameter) -> tuple[tuple[str, str], ...]:
    if of.codes:
        return (*(("", code) for code in (*of.codes, f"|{of.codes[0]}", ",".join(of.codes))), *MISSING)
    return FORMS[of.kind]


def plans(connection: Connection, type_name: str, pairs: Pairs) -> Iterator[tuple[str, list[str]]]:
    """Yield the steps of a search as page by offset, as page by cursor, and as total."""
    parameters = KEPT[type_name].search_parameters(FhirVersion.R4)
    search = parse_search(type_name, parameters, pairs, "http://x")
    for name, (sql, arguments), place in (
        ("page", query.page_statement(1, search), (20, 40)),
        ("cursor", query.page_statement(1, search, 4711), (20, 0)),
        ("total", query.total_statement(1, search), ()),
    ):
        yield name, [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (*arguments, *place))]


def hold_to_indexes(connection: Connection, type_name: str, pairs: Pairs) -> None:
    """Hold every statement of a search to reading by index and sorting nothing."""
    contains = any(":contains" in name for name, _ in pairs)
    drives = any(":missing" not in name for name, _ in pairs)
    for name, steps in plans(connection, type_name, pairs):
        passed = {f"SCAN {step.split()[1]}" for step in steps if step.startswith("CO-ROUTINE")}
        for step in steps:
            told = f"{name} of {type_name} {pairs}: {step}"
            frame = FRAME.fullmatch(step) or (name == "total" and (ONCE.fullmatch(step) or step in passed))
            assert frame or READS.fullmatch(step) or (contains and step == EVERY_VALUE), told
            assert not (drives and EVERY_RECORD.fullmatch(step)), told


@pytest.mark.parametrize("type_name", KEPT)
def test_every_parameter_alone(connection: Connection, type_name: str) -> None:
    """Every form of every parameter drives a search by its index: page, cursor and total; so does none at all."""
    hold_to_indexes(connection, type_name, ())
    for form in forms(KEPT[type_name].parameters):
        hold_to_indexes(connection, type_name, (form,))


@pytest.mark.parametrize("type_name", KEPT)
def test_every_parameter_beside_another(connection: Connection, type_name: str) -> None:
    """Every form of every parameter probes the records that a more selective one names, and nothing else."""
    for form in forms(KEPT[type_name].parameters):
        if not form[0].startswith("_id"):
            hold_to_indexes(connection, type_name, (("_id", "a"), form))


@pytest.mark.parametrize("type_name", ["Patient", "DocumentReference"])
def test_every_two_parameters(connection: Connection, type_name: str) -> None:
    """Each two forms of the types with most parameters are answered by searching indexes only."""
    some = [pair for pair in forms(KEPT[type_name].parameters) if "," not in pair[1] and pair[1] != "false"]
    for two in itertools.combinations(some, 2):
        if len({name.partition(":")[0] for name, _ in two}) == 2:
            hold_to_indexes(connection, type_name, two)


@pytest.mark.parametrize("type_name", KEPT)
def test_every_order(connection: Connection, type_name: str) -> None:
    """N-224: a search in an order finds its matches as without one, and sorts their keys by values read by key."""
    parameters = KEPT[type_name].search_parameters(FhirVersion.R4)
    for name in (one for one, parameter in parameters.items() if parameter.kind in ORDERED):
        for pairs in ((), (("_id", "a"),)):
            search = parse_search(type_name, parameters, pairs, "http://x")
            sql, arguments = query.sorted_statement(1, search, parse_sort(f"-{name}", parameters))
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (*arguments, 20, 40)):
                sorting = step == "USE TEMP B-TREE FOR ORDER BY" or (
                    name in {"_id", "_lastUpdated"} and "ORDER BY" in step
                )
                assert sorting or FRAME.fullmatch(step) or READS.fullmatch(step), (name, step)


# Of a search by linked resources: what it has found once, and its own by id behind a key.
BESIDE = re.compile(
    r"SCAN (resource|driven)|CREATE BLOOM FILTER"
    r"|SEARCH resource USING INDEX resource_by_id \(tenant=\? AND type=\? AND id=\? AND rowid>\?\)"
)
CHAINS = (
    ("Observation", "patient.identifier", "s|a"),
    ("Observation", "subject.birthdate", "1984-02-29"),
    ("Observation", "patient.name", "a"),
    ("Observation", "encounter.status", "finished"),
    ("Observation", "performer.name", "a,b"),
    ("Patient", "_has:Observation:patient:code", "s|a"),
    ("Patient", "_has:Observation:patient:date", "2025-07-01"),
    ("Encounter", "_has:Observation:encounter:patient", "a"),
)


@pytest.mark.parametrize(("type_name", "name", "value"), CHAINS)
def test_every_link(connection: Connection, type_name: str, name: str, value: str) -> None:
    """N-244: a search by linked resources finds these by an index, and by these its own, alone and beside another."""
    parameters = KEPT[type_name].search_parameters(FhirVersion.R4)
    linked = linked_criteria([(name, value)], parameters, "http://x", FhirVersion.R4, lambda *_: True)
    for pairs in ((), (("_id", "a"),), (("_tag", "a"),)):
        own = parse_search(type_name, parameters, pairs, "http://x")
        search = replace(own, criteria=(*own.criteria, *linked))
        for sql, arguments, place in (
            (*query.page_statement(1, search, 4711), (20, 0)),
            (*query.total_statement(1, search), ()),
        ):
            for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (*arguments, *place)):
                passed = ONCE.fullmatch(step) or BESIDE.fullmatch(step)
                assert passed or FRAME.fullmatch(step) or READS.fullmatch(step), (pairs, step)
                assert not EVERY_RECORD.fullmatch(step), step


# What is asked of jobs every second, at each handle and at each question, by the index that answers it.
JOBS = {
    job.BY_ID: "job_by_id (id=? AND tenant=?)",
    job.OF_ID: "job_by_id (id=?)",
    job.PATIENT: "job_by_id (id=? AND tenant=?)",
    job.UNFINISHED: "job_one_at_a_time (tenant=? AND kind=? AND patient=? AND version=?)",
    job.WAITING: "job_unfinished (state=? AND tenant=?)",
    job.FIRST: "job_unfinished (state=?)",
    job.RUNNING: "job_unfinished (state=?)",
    job.HOPELESS: "job_unfinished (state=?)",
    job.TAKE_BACK: "job_unfinished (state=?)",
    job.OLD: "job_ended (ended_ms<?)",
}


@pytest.mark.parametrize("sql", JOBS)
def test_jobs_are_found_by_their_indexes(connection: Connection, sql: str) -> None:
    """However many results are kept, a job is found by an index, and what has not ended by one of that alone."""
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", (None,) * sql.count("?"))]
    assert any(f"INDEX {JOBS[sql]}" in step for step in steps), steps
    assert not any(step.startswith("SCAN job") for step in steps), steps


def test_unfinished_jobs_are_counted_by_an_index(connection: Connection) -> None:
    """The metrics read the jobs that have not ended, and no results."""
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {job.COUNTS}")]
    assert steps[0] == "SCAN job USING INDEX job_unfinished", steps


def driver(connection: Connection, type_name: str, pairs: Pairs) -> str:
    """Return the index by which a search finds its first records."""
    steps = next(plans(connection, type_name, pairs))[1]
    return next(re.findall(r"INDEX (\w+) ", step)[0] for step in steps if " INDEX " in step)


@pytest.mark.parametrize(
    ("type_name", "query_pairs", "index"),
    [
        ("Patient", (("gender", "F"), ("birthdate", "1984-02-29"), ("family", "a")), "date_by_low"),
        ("Patient", (("gender", "F"), ("birthdate", "gt1984"), ("family", "a")), "string_by_value"),
        ("Patient", (("given:contains", "a"), ("family", "a")), "string_by_value"),
        ("Patient", (("_lastUpdated", "gt2020"), ("identifier", "a")), "identifier_by_value"),
        (
            "Observation",
            (("status", "final"), ("code", "a"), ("patient", "a"), ("date", "gt2020")),
            "reference_by_target",
        ),
        ("DocumentReference", (("status", "current"), ("date", "ge2025"), ("patient", "a")), "reference_by_target"),
    ],
)
def test_the_most_selective_drives(connection: Connection, type_name: str, query_pairs: Pairs, index: str) -> None:
    """Of several criteria the one that leaves fewest records is looked up first, in whatever order they are given."""
    for order in itertools.permutations(query_pairs):
        assert driver(connection, type_name, order) == index


def test_a_cursor_is_sought(connection: Connection) -> None:
    """A page by cursor begins at its key, so that the last page reads as little as the first."""
    steps = dict(plans(connection, "Patient", ()))["cursor"]
    assert steps == ["SEARCH resource USING INDEX resource_live (tenant=? AND type=? AND key>?)"]
    steps = dict(plans(connection, "Patient", (("gender", "s|F"),)))["cursor"]
    assert any("(tenant=? AND parameter=? AND code=? AND system=? AND key>?)" in step for step in steps)


@pytest.mark.parametrize("statement", [REFERRING, IN_CHART_OF])
def test_whose_a_binary_is(connection: Connection, statement: str) -> None:
    """Who has content attached, and in whose chart that is, is found by indexes only."""
    arguments = ("x",) * statement.count("?")
    steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", arguments)]
    assert [step for step in steps if step.startswith("SEARCH")]
    assert not [step for step in steps if step.startswith("SCAN")], steps
