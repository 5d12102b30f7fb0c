"""The store's texts on a real PostgreSQL: all of them run, and they find what SQLite finds."""

import contextlib
import importlib
import pkgutil
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import interchange
from engine.database.dialect import POSTGRESQL, SQLITE
from engine.database.postgresql import PostgresqlConnection
from engine.database.postgresql import connect as connect_postgresql
from engine.fhir.schema import FhirVersion
from engine.interchange.core.audit.reading import page_statement, total_statement
from engine.interchange.rest.everything import ChartPart, chart_keys, records
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.rest.resource.search import linked_criteria
from engine.interchange.store import query
from engine.interchange.store.access import append
from engine.interchange.store.index import ADD_STRING
from engine.interchange.store.postgresql_steps import ALL_STEPS, REMEMBER
from engine.interchange.store.schema import STEPS, statements, statements_of
from engine.interchange.store.search.criterion import ORDERED, Parameter, ParameterKind, SearchQuery, parse_sort
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.sqlite import connect, prepare
from engine.interchange.store.transaction import Transaction, milliseconds
from tests.interchange.kit import MRN, patient, record_number
from tests.interchange.test_access_search import accesses, searches
from tests.interchange.test_resource import LEAST, least
from tests.postgresql import running_postgres

BASE = "http://x/fhir"
START = datetime(2026, 1, 1, tzinfo=UTC)
STATEMENT = re.compile(r"(SELECT|INSERT|UPDATE|DELETE)\s")
NAMES = ("Ångström", "angstrom", "Anger", "Zoë", "zoe", "ß", "SS", "Łódź", "Ｑuintero", "Quintero", "Quintéro-Vance")
NAMES += ("\U0001f600", "\U0010ffff", "\ue000", "O'Neil", "50%", "a_b", "\\", "İ", "i", "van der  Berg", "中村")
BY_FAMILY = "SELECT key FROM string_index WHERE parameter='Patient.family' AND {test} ORDER BY folded, exact, key"
SAMPLES = {
    ParameterKind.ID: ("a", "a,b"),
    ParameterKind.STRING: ("an", "q", "ang,zoe", "ß", "\U0001f600", "\U0010ffff", "50%", "a_b", "中"),
    ParameterKind.TOKEN: ("F", "http://loinc.org|1", "urn:t|", "final,active", "|x"),
    ParameterKind.CONTACT: ("555-1", "a@b.example,+1 (503) 5"),
    ParameterKind.IDENTIFIER: (f"{MRN}|1", "1,2", f"{MRN}|", "urn:none|1"),
    ParameterKind.DATE: ("1984-02-29", "gt1984", "ge1984-02", "lt1985", "le1984-02-29T12:00:00Z"),
    ParameterKind.UPDATED: ("gt2019", "2026-01-01T00:00:05Z", "le2026"),
    ParameterKind.REFERENCE: ("p1", "Patient/p1", "p1,p2"),
    ParameterKind.URI: ("http://x/a", "http://x/a,http://x/b"),
    ParameterKind.CANONICAL: ("a", "http://x/a|1", "http://x/a"),
}


@contextlib.contextmanager
def made_tables(address: str) -> Iterator[PostgresqlConnection]:
    """Connect to a server and make the store's tables in a schema, until the block ends and all is undone."""
    with contextlib.closing(connect_postgresql(address)) as connection:
        connection.execute("BEGIN")
        name = f"s{connection.inner.info.backend_pid}"
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"SET LOCAL search_path TO {name}")
        connection.script([REMEMBER, *(statement for step in ALL_STEPS.values() for statement in statements_of(step))])
        yield connection


def texts() -> dict[str, str]:
    """Return every text of SQL in the service's modules that is no template, by its place."""
    found = {}
    for module in pkgutil.walk_packages(interchange.__path__, f"{interchange.__name__}."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.isupper() and isinstance(value, str) and STATEMENT.match(value) and "{" not in value:
                found[f"{module.name}.{name}"] = value
    return found


def samples(parameter: Parameter) -> Iterator[tuple[str, str]]:
    """Yield queries of one search parameter, in each of its forms."""
    yield f"{parameter.name}:missing", "true"
    yield f"{parameter.name}:missing", "false"
    for value in parameter.codes or SAMPLES[parameter.kind]:
        if not (parameter.kind is ParameterKind.REFERENCE and "/" in value and "Patient" not in parameter.targets):
            yield parameter.name, value
            if parameter.kind is ParameterKind.STRING:
                yield f"{parameter.name}:exact", value
                yield f"{parameter.name}:contains", value


def queries() -> list[tuple[str, tuple[tuple[str, str], ...]]]:
    """Return searches of every type by each of its parameters, and by two and three of them at once."""
    made: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    chance = random.Random(3)
    for name, definition in KEPT.items():
        single = [pair for parameter in definition.parameters for pair in samples(parameter)]
        made += [(name, ()), *((name, (pair,)) for pair in single)]
        for size in (2, 3) * 10:
            drawn = tuple(chance.sample(single, size))
            if len({key.partition(":")[0] for key, _ in drawn}) == size:
                made.append((name, drawn))
    return made


def search(name: str, pairs: tuple[tuple[str, str], ...]) -> Any:
    """Return a search as the service reads it."""
    return parse_search(name, KEPT[name].search_parameters(FhirVersion.R4), pairs, BASE)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A PostgreSQL server."""
    with running_postgres() as address:
        yield address


@pytest.fixture(scope="module")
def tables(postgres: str) -> Iterator[PostgresqlConnection]:
    """The store's tables in PostgreSQL, empty."""
    with made_tables(postgres) as connection:
        yield connection


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The store's tables in SQLite, empty."""
    path = tmp_path_factory.mktemp("lite") / "s.db"
    prepare(path)
    connection = connect(path)
    yield connection
    connection.close()


Both = tuple[Transaction, Transaction]


def transactions(folder: Path, connection: PostgresqlConnection) -> Both:
    """Return a transaction of tenant 1 in SQLite and one in PostgreSQL."""
    prepare(folder / "s.db")
    lite = connect(folder / "s.db")
    lite.execute(SQLITE.writing)
    ticks = [START + timedelta(seconds=number) for number in range(2)]
    return Transaction(lite, 1, ticks[0], INDEXERS), Transaction(connection, 1, ticks[0], INDEXERS)


@pytest.fixture(scope="module")
def both(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """The same charts in SQLite and in PostgreSQL."""
    with made_tables(postgres) as connection:
        made = transactions(tmp_path_factory.mktemp("both"), connection)
        for one in made:
            fill(one)
        yield made
        made[0].connection.close()


def fill(transaction: Transaction) -> None:
    """Keep patients with names of many scripts, a chart, an update and two merges in a chain."""
    kept = []
    for number, name in enumerate(NAMES):
        transaction.at = START + timedelta(seconds=number)
        body = patient(
            name=[{"family": name, "given": [NAMES[number - 1]]}],
            birthDate=("1984", "1984-02", "1984-02-29", "1990-01-01")[number % 4],
            gender=("female", "male", "other")[number % 3],
            identifier=[record_number(str(number)), {"system": "urn:other", "value": str(number % 5)}],
            meta={"tag": [{"system": "urn:t", "code": "final"}]},
        )
        kept.append(transaction.create("Patient", f"p{number}", body))
    for number, type_name in enumerate(sorted(LEAST) * 3):
        body = least(type_name, f"p{(number + number // len(LEAST)) % 4}")
        body |= {"effectiveDateTime": f"1984-02-{number % 28 + 1:02d}T10:00:00+02:00", "name": f"{NAMES[number % 9]}"}
        if type_name == "Observation":
            body["performer"] = [{"reference": f"Organization/r{sorted(LEAST).index('Organization')}"}]
        if type_name in {"Practitioner", "RelatedPerson"}:
            body["name"] = [{"family": NAMES[number % 9]}]
        transaction.create(type_name, f"r{number}", body)
    transaction.update(kept[4], {**kept[4].resource(), "birthDate": "1984", "active": False})
    transaction.retire(kept[1], kept[1].resource(), kept[2])
    transaction.retire(kept[2], kept[2].resource(), kept[3])


def test_sqlite_takes_the_texts_as_they_are() -> None:
    """Rendering for SQLite changes nothing, so that databases which exist have the tables that they had."""
    made = [part.strip() for script in STEPS.values() for part in script.split(";") if part.strip()]
    assert list(statements(SQLITE)) == made
    assert {place for place, text in texts().items() if SQLITE.render(text) != text} == set()


def test_rendering_leaves_quoted_values() -> None:
    """Words are replaced where they are words: not within names and not within quoted values."""
    text = "CREATE TABLE a (INTEGERS INTEGER, b TEXT DEFAULT 'TEXT ?') STRICT, WITHOUT ROWID"
    made = "CREATE TABLE a (INTEGERS BIGINT, b TEXT COLLATE \"C\" DEFAULT 'TEXT ?')"
    assert POSTGRESQL.render(text) == made
    assert POSTGRESQL.render("SELECT instr(a, ?) WHERE b='?'") == "SELECT strpos(a, $1) WHERE b='?'"


def test_columns_in_postgresql(tables: PostgresqlConnection) -> None:
    """Texts are ordered by code point, numbers have 64 bits, and no column has a type beside text, number and bytes."""
    rows = tables.execute(
        "SELECT data_type, collation_name FROM information_schema.columns WHERE table_schema=current_schema()"
    ).fetchall()
    assert set(rows) == {("text", "C"), ("bigint", None), ("bytea", None)}


@pytest.mark.parametrize("place", sorted(texts()))
def test_every_statement_is_understood(tables: PostgresqlConnection, place: str) -> None:
    """PostgreSQL prepares every text of the service: its tables, columns, functions and types are right."""
    text = POSTGRESQL.render(texts()[place])
    with tables.inner.transaction(force_rollback=True):
        tables.inner.execute(f"PREPARE one AS {text}".encode())
    tables.inner.execute("DEALLOCATE one")


def test_all_places_are_known() -> None:
    """The texts that are tried come from the whole service, also from rooms that keep tables of their own."""
    assert {place.split(".")[2] for place in texts()} >= {"store", "tokens"}
    assert len(texts()) > 20


def test_every_search_is_understood_and_finds_the_same(both: Both) -> None:
    """Every parameter of every type, alone and with others: same records, same order, same total, page by page."""
    found = 0
    for name, pairs in queries():
        asked = search(name, pairs)
        for place in ({"offset": 0}, {"offset": 3}, {"after": 30}):
            lite, other = (query.find(one, asked, count=3, **place) for one in both)
            assert lite == other, (name, pairs, place)
            found += len(lite.records)
    assert found > 300


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("Observation", "patient.identifier", f"{MRN}|0,{MRN}|3,{MRN}|4,urn:other|"),
        ("Observation", "subject.name", "an"),
        ("Observation", "patient.birthdate:missing", "false"),
        ("Patient", "_has:Observation:patient:status", "final"),
        ("Patient", "_has:Condition:subject:_lastUpdated", "gt2019"),
    ],
)
def test_every_link_is_the_same(both: Both, name: str, key: str, value: str) -> None:
    """N-244: what is found by linked resources is the same in both databases."""
    parameters = KEPT[name].search_parameters(FhirVersion.R4)
    linked = linked_criteria([(key, value)], parameters, BASE, FhirVersion.R4, lambda *_: True)
    lite, other = (query.find(one, SearchQuery(name, linked), count=5) for one in both)
    assert lite == other
    assert lite.records


def test_every_order_is_the_same(both: Both) -> None:
    """N-224: sorted by each parameter that has an order, up and down, pages are the same in both databases."""
    found = 0
    for name, definition in KEPT.items():
        parameters = definition.search_parameters(FhirVersion.R4)
        for key in (one for one, parameter in parameters.items() if parameter.kind in ORDERED):
            for order in (f"{key}", f"-{key}") if key == "_security" else (f"{key}", f"-{key}", f"{key},-_security"):
                keys = parse_sort(order, parameters)
                lite, other = (query.find(one, search(name, ()), count=4, offset=1, order=keys) for one in both)
                assert lite == other, (name, order)
                found += len(lite.records)
    assert found > 300


@pytest.mark.parametrize(
    "wanted",
    [
        ChartPart(),
        ChartPart(types=frozenset({"Observation", "Organization"})),
        ChartPart(first_ms=445_000_000_000, last_ms=446_000_000_000),
        ChartPart(since_ms=milliseconds(START)),
    ],
    ids=["all", "types", "days", "since"],
)
def test_charts_are_the_same(both: Both, wanted: ChartPart) -> None:
    """$everything of each patient has the same resources in the same order."""
    found = 0
    for number in (0, 1, 2, 3):
        charts = []
        for one in both:
            stored = one.get("Patient", f"p{number}")
            assert stored is not None
            charts.append(records(one, stored, chart_keys(one, stored, wanted)))
        assert charts[0] == charts[1]
        found += len(charts[0])
    assert found > 3


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda one: one.holders("Patient.identifier", "urn:other", "2"), id="holders"),
        pytest.param(lambda one: one.record_number_holders("Patient.identifier", MRN, "1"), id="record number"),
        pytest.param(lambda one: list(one.referrers("Patient/p1")), id="referrers"),
        pytest.param(lambda one: one.get("Patient", "p2"), id="merged away"),
        pytest.param(lambda one: one.get("Patient", "p4"), id="updated"),
        pytest.param(lambda one: one.get("Patient", "none"), id="none"),
        pytest.param(lambda one: [one.standing("Patient", name) for name in ("p1", "p2", "none")], id="standing"),
        pytest.param(lambda one: one.by_key(3), id="by key"),
    ],
)
def test_look_ups_find_the_same(both: Both, look: Callable[[Transaction], Any]) -> None:
    """Identifiers that went over to a survivor, references, versions and survivors are the same in both."""
    lite, other = (look(one) for one in both)
    assert lite == other


def test_the_longest_texts_fit_the_indexes(both: Both) -> None:
    """Names, codes and identifiers of any length are kept in both databases, and found by all of their text."""
    chance = random.Random(5)
    long = "".join(chr(chance.randrange(0x10000, 0x10800)) for _ in range(5000))
    coding = {"system": f"urn:{long}", "code": long}
    number = {**record_number(long), "system": f"urn:{long}"}
    body = patient(
        name=[{"family": long, "given": [long]}], identifier=[number], meta={"tag": [coding], "security": [coding]}
    )
    asked = {
        "family": (long, long + "x", "\U0001d000"),
        "family:exact": (long, "x" + long),
        "given:contains": (long[100:200], long[::-1][:100]),
        "identifier": (f"urn:{long}|{long}", f"urn:{long}|{long}x", f"urn:{long}|", long[:-1]),
        "_tag": (f"urn:{long}|{long}", f"urn:{long}x|{long}"),
    }
    told = []
    for one in both:
        one.create("Patient", "long", body)
        found = [
            query.find(one, search("Patient", ((name, value),)), count=5) for name in asked for value in asked[name]
        ]
        told.append([[record.id for record in each.records] for each in found])
        assert one.record_number_holders("Patient.identifier", f"urn:{long}", long) != ()
        assert one.record_number_holders("Patient.identifier", f"urn:{long}", long + "x") == ()
    yes, no = ["long"], list[str]()
    assert told[0] == told[1] == [yes, yes, no, yes, no, yes, no, yes, no, yes, no, yes, no]


@given(
    kept=st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=6), max_size=8),
    data=st.data(),
)
def test_any_text_is_found_in_both(
    tables: PostgresqlConnection, lite: Any, kept: list[str], data: st.DataObject
) -> None:
    """Whatever the names and the text that is looked for: beginning, whole and part match the same ones in both."""
    sought = data.draw(st.sampled_from([name[:2] for name in kept if name[:2].strip()] or ["x"]))
    index = [INDEXERS["Patient"](patient(name=[{"family": name or "-"}])) for name in kept]
    rows = [(1, key, *row) for key, one in enumerate(index) for row in one.strings]
    parameters = {parameter.name: parameter for parameter in KEPT["Patient"].parameters}
    value = re.sub(r"([\\,|$])", r"\\\1", sought)
    lite.execute("BEGIN")
    with tables.inner.transaction(force_rollback=True):
        for connection in (lite, tables):
            connection.executemany(ADD_STRING, rows)
        for name in ("family", "family:exact", "family:contains"):
            (criterion,) = parse_search("Patient", parameters, [(name, value)], BASE).criteria
            ((test, arguments),) = criterion.tests
            sql = BY_FAMILY.format(test=test)
            answers = [[key for (key,) in one.execute(sql, arguments).fetchall()] for one in (lite, tables)]
            assert answers[0] == answers[1]
    lite.execute("ROLLBACK")


def test_every_search_of_the_log_is_the_same(postgres: str, lite: Any) -> None:
    """N-327: searches of the access log find the same rows in the same order, and PostgreSQL scans no log either."""
    lite.execute(SQLITE.writing)
    append(lite, accesses())
    with made_tables(postgres) as tables:
        append(tables, accesses())
        tables.execute("SET LOCAL enable_seqscan = off")
        for pairs in searches():
            page, values = page_statement("riverbend", pairs)
            total, counted = total_statement("riverbend", pairs)
            found = [one.execute(page, (*values, 20, 5)).fetchall() for one in (lite, tables)]
            assert [tuple(row) for row in found[0]] == [tuple(row) for row in found[1]], pairs
            assert lite.execute(total, counted).fetchone() == tables.execute(total, counted).fetchone(), pairs
            plan = [row[0] for row in tables.execute(f"EXPLAIN {page}", (*values, 20, 5)).fetchall()]
            assert not [step for step in plan if "Seq Scan" in step], (pairs, plan)
    lite.execute("ROLLBACK")
