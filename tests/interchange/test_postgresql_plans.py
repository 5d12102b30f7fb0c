"""Plans of PostgreSQL on tables of some size: what is asked for is led to by an index, as in SQLite."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from engine.database.postgresql import PostgresqlConnection, connect
from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store import history, query
from engine.interchange.store.postgresql_steps import ALL_STEPS
from engine.interchange.store.schema import statements_of
from engine.interchange.store.search.parse import parse_search
from tests.interchange.test_store import HOT
from tests.postgresql import new_database, scanned

MRN = "https://mrn.riverbend.example"
PEOPLE = 30_000
# Patients, each with a visit and a result: names that many share, numbers that nobody does, days of 50 years.
FILLED = (
    (
        "INSERT INTO resource (tenant, type, id, version, updated_ms, body)"
        " SELECT 1, (ARRAY['Patient', 'Encounter', 'Observation'])[n % 3 + 1], 'r' || n, 1, n, 'x' FROM n"
    ),
    "INSERT INTO string_index SELECT n + 1, 'Patient.family', 'f' || n % 900, 'F' || n % 900, 1 FROM n WHERE n % 3 = 0",
    "INSERT INTO string_index SELECT n + 1, 'Patient.given', 'g' || n % 300, 'G' || n % 300, 1 FROM n WHERE n % 3 = 0",
    (
        "INSERT INTO token_index SELECT n + 1, 'Patient.gender', CASE n % 2 WHEN 0 THEN 'male' ELSE 'female' END,"
        " 'http://hl7.org/fhir/administrative-gender', 1 FROM n WHERE n % 3 = 0"
    ),
    "INSERT INTO token_index SELECT n + 1, 'Observation.code', 'c' || n % 50, 'l', 1 FROM n WHERE n % 3 = 2",
    "INSERT INTO token_index SELECT n + 1, 'Encounter.status', 'finished', 's', 1 FROM n WHERE n % 3 = 1",
    (
        "INSERT INTO date_index SELECT n + 1, 'Patient.birthdate', n % 18000 * 86400000,"
        " n % 18000 * 86400000 + 86399999, 1 FROM n WHERE n % 3 = 0"
    ),
    "INSERT INTO date_index SELECT n + 1, 'Observation.date', n * 86400, n * 86400, 1 FROM n WHERE n % 3 = 2",
    (
        "INSERT INTO identifier_index SELECT n + 1, 'Patient.identifier', 'RB-' || n, 'https://mrn.riverbend.example',"
        " 1, n + 1, 1 FROM n WHERE n % 3 = 0"
    ),
    (
        "INSERT INTO reference_index SELECT n + 1, (ARRAY['', 'Encounter.patient', 'Observation.patient'])[n % 3 + 1],"
        " 'Patient/r' || n / 3 * 3, 1 FROM n WHERE n % 3 > 0"
    ),
    (
        "INSERT INTO version (tenant, type, key, version, updated_ms, ended_ms, change, body)"
        " SELECT 1, 'Patient', n + 1, 0, n, n, 'POST', 'x' FROM n WHERE n % 3 = 0"
    ),
    "INSERT INTO token SELECT sha256(n::text::bytea), 'access', n, 'c', 's', 'v', n, 0, '', '' FROM n",
    "INSERT INTO authorization_code SELECT sha256(n::text::bytea), n, 'c', 'l', 's', 'u', '', n, 0, '', '' FROM n",
    "INSERT INTO spent_assertion SELECT sha256(n::text::bytea), n FROM n",
    "INSERT INTO unknown_version SELECT n + 1, 1 FROM n",
)
SEARCHES = (
    *(f"Patient?{one}" for one in (f"identifier={MRN}|RB-300", "identifier=RB-300", "_id=r3", "_lastUpdated=gt2030")),
    *("Patient?family=f1&birthdate=1984-02-29", "Patient?family=f1&given=g1&birthdate=1984-02-29&gender=male"),
    *("Patient?family:exact=F1", "Patient?birthdate=1984-02-29", "Encounter?patient=r3"),
    *("Encounter?patient=r3&status=finished", "Observation?patient=r3", "Observation?patient=r3,r6,r9"),
    "Observation?patient=r3&code=c5&date=ge1971",
)


@pytest.fixture(scope="module")
def tables(postgres_server: str) -> Iterator[PostgresqlConnection]:
    """The store's tables with 90,000 resources."""
    with new_database(postgres_server) as address, contextlib.closing(connect(address)) as connection:
        connection.script(one for step in ALL_STEPS.values() for one in statements_of(step))
        connection.execute("INSERT INTO tenant (name) VALUES ('t')")
        for statement in FILLED:
            numbers = f"WITH n AS (SELECT generate_series(0, {3 * PEOPLE - 1})::bigint AS n) "
            connection.inner.execute((numbers + statement).encode())
        connection.execute("ANALYZE")
        yield connection


@HOT
def test_look_ups_and_changes(tables: PostgresqlConnection, sql: str, arguments: tuple[Any, ...]) -> None:
    """Statements beside the searches touch the rows that they name; a history of all of a type counts all of it."""
    if sql == history.COUNT_TYPE:
        arguments = ((1, "Patient", 3 * PEOPLE - 100) * 3) + (0,)
    assert scanned(tables, sql, arguments) == []


@pytest.mark.parametrize("asked", SEARCHES)
def test_searches(tables: PostgresqlConnection, asked: str) -> None:
    """What is searched for often is found by an index: pages, those behind a key, and totals."""
    name, _, parameters = asked.partition("?")
    pairs = [(one.partition("=")[0], one.partition("=")[2]) for one in parameters.split("&")]
    search = parse_search(name, KEPT[name].search_parameters(FhirVersion.R4), pairs, "http://x")
    for statement, arguments, more in (
        (*query.page_statement(1, search), (20, 0)),
        (*query.page_statement(1, search, 70), (20, 0)),
        (*query.total_statement(1, search), ()),
    ):
        assert scanned(tables, statement, (*arguments, *more)) == []
