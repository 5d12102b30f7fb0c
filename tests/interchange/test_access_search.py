"""Searches of the access log: what they find, and that the length of the log does not decide what they cost."""

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.database.connection import Connection
from engine.interchange.core.audit.reading import PARAMETERS, page_statement, total_statement
from engine.interchange.store.access import AccessRow, append
from engine.interchange.store.sqlite import connect, prepare

DAY_MS = 86_400_000
# 2026-01-01, the day of the rows that are searched for.
START_MS = 1_767_225_600_000
ROWS = 100_000
# Rows of the years before it, of other clients, people, patients and addresses: nothing asked for below matches one.
OTHERS = (
    "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows})"
    " INSERT INTO access SELECT {first} + n, {start} - n * 1000, 'riverbend', 'other' || n % 9, 'someone' || n % 99,"
    " 'nurse', '10.9.9.' || n % 99, 'r', 'R4', 'read', 'Patient', 'x', 'q' || n % 999, 'done', 200, x'00' FROM n"
)
OTHER_PATIENTS = "INSERT INTO access_patient SELECT tenant, patients, seq FROM access WHERE seq > {first}"
CRITERIA = {
    "_id": ("7", "999999999", "none"),
    "address": ("10.0.0.1",),
    "altid": ("app", "nurse.lind", "both", "nobody"),
    "date": ("2026-01-01", "ge2026-01-01T12:00:00Z", "2026"),
    "outcome": ("0", "4", "8", "http://terminology.hl7.org/CodeSystem/audit-event-outcome|4", "x"),
    "patient": ("p3", "Patient/p3", "nobody"),
    "subtype": ("merge", "http://hl7.org/fhir/restful-interaction|update"),
}
# What no index knows by itself: the rows of a span of time are looked through.
WALKED = {"address", "outcome", "subtype"}
SEARCHED = re.compile(
    r"SEARCH access_patient USING PRIMARY KEY \(tenant=\? AND patient=\?( AND seq=\?)?\)"
    r"|SEARCH access USING INTEGER PRIMARY KEY \(rowid=\?\)"
    r"|SEARCH access USING (COVERING )?INDEX access_by_(client|login|outcome|time) \(tenant=\?.*\)"
)
FRAME = re.compile(r"SCAN CONSTANT ROW|SCALAR SUBQUERY \d+|MERGE \(UNION ALL\)|LEFT|RIGHT")

Pairs = tuple[tuple[str, str], ...]


def accesses() -> list[AccessRow]:
    """Return five hundred accesses of one day in two tenants."""
    chance = random.Random(5)
    return [
        AccessRow(
            START_MS + chance.randrange(DAY_MS),
            chance.choice(("riverbend", "riverbend", "lakeside")),
            chance.choice(("app", "both", "engine")),
            chance.choice(("", "nurse.lind", "both")),
            "nurse",
            chance.choice(("10.0.0.1", "10.0.0.2")),
            "r",
            "R4",
            chance.choice(("read", "read", "update", "merge")),
            "Patient",
            "x",
            " ".join(chance.sample([f"p{number}" for number in range(9)], chance.randrange(3))),
            chance.choice(("done", "done", "refused", "failed")),
            200,
        )
        for _ in range(500)
    ]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A log of one day."""
    connection = opened(tmp_path_factory.mktemp("short"))
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """The same, and a hundred thousand rows before it."""
    connection = opened(tmp_path_factory.mktemp("long"))
    numbers = {"rows": ROWS, "first": 1000, "start": START_MS}
    for sql in (OTHERS, OTHER_PATIENTS):
        connection.execute(sql.format(**numbers))
    connection.execute("COMMIT")
    yield connection
    connection.close()


def opened(folder: Path) -> Connection:
    """Return a database with the day's accesses, in a transaction."""
    prepare(folder / "s.db")
    connection = connect(folder / "s.db")
    connection.execute("BEGIN")
    append(connection, accesses())
    return connection


def searches() -> list[Pairs]:
    """Return every criterion alone, every two of them, and all those of three and four that name a time."""
    single = [(name, value) for name, values in CRITERIA.items() for value in values]
    twos = [two for two in itertools.combinations(single, 2) if len(dict(two)) == 2]
    first = [(name, values[0]) for name, values in CRITERIA.items()]
    more = [some for size in (3, 4) for some in itertools.combinations(first, size)]
    return [(), *((one,) for one in single), *twos, *more]


def matches(number: int, one: AccessRow, pairs: Pairs) -> bool:
    """Say whether a row meets criteria, without a database."""
    ends = {"2026-01-01": (0, DAY_MS), "ge2026-01-01T12:00:00Z": (DAY_MS // 2, DAY_MS), "2026": (0, DAY_MS)}
    codes = {"0": "done", "4": "refused", "8": "failed"}
    meets = {
        "_id": lambda value: str(number) == value,
        "address": lambda value: one.address == value,
        "altid": lambda value: value in {one.client, one.login},
        "date": lambda value: ends[value][0] <= one.at_ms - START_MS < ends[value][1],
        "outcome": lambda value: one.outcome == codes.get(value.rpartition("|")[2]),
        "patient": lambda value: value.removeprefix("Patient/") in one.patients.split(),
        "subtype": lambda value: one.interaction == value.rpartition("|")[2],
    }
    return one.tenant == "riverbend" and all(meets[name](value) for name, value in pairs)


def test_every_parameter_is_searched_here() -> None:
    """A search parameter of AuditEvent without values here is one that nobody has thought about."""
    assert CRITERIA.keys() == PARAMETERS.keys()


def test_what_a_search_finds(short: Connection) -> None:
    """N-324: by each parameter, and by several, what the rows say and no other tenant's, oldest first, each once."""
    kept = list(enumerate(accesses(), 1))
    for pairs in searches():
        wanted = [(one.at_ms, number) for number, one in kept if matches(number, one, pairs)]
        sql, values = page_statement("riverbend", pairs)
        rows = short.execute(sql, (*values, 1000, 0)).fetchall()
        assert [(row[0], row[-2]) for row in rows] == sorted(wanted), pairs
        sql, values = total_statement("riverbend", pairs)
        assert short.execute(sql, values).fetchone() == (len(wanted),), pairs


def steps(connection: Connection, sql: str, values: tuple[Any, ...]) -> int:
    """Return how many instructions SQLite carries out for a query, give or take ten."""
    count = itertools.count()
    connection.set_progress_handler(lambda: next(count) < 0, 10)
    try:
        connection.execute(sql, values).fetchall()
    finally:
        connection.set_progress_handler(None, 0)
    return next(count) * 10


def test_the_length_of_the_log_does_not_count(short: Connection, long: Connection) -> None:
    """N-327: page and total of a search that names whom, who or when take no more steps behind 100,000 other rows."""
    for pairs in searches():
        if looked_through(pairs):
            continue
        for statement, place in ((page_statement, (20, 0)), (total_statement, ())):
            sql, values = statement("riverbend", pairs)
            few, many = (steps(one, sql, (*values, *place)) for one in (short, long))
            assert many <= 2 * few + 200, (pairs, few, many)


def looked_through(pairs: Pairs) -> bool:
    """Say whether a search names nothing that has an index; what ended well is nearly all, and has none."""
    given = dict(pairs)
    return given.keys() <= WALKED and given.get("outcome") in {None, "0"}


def test_every_search_is_by_an_index(long: Connection) -> None:
    """N-327: no search scans the log; only what is found by a patient is sorted, all else comes in the log's order."""
    for pairs in searches():
        for statement, place in ((page_statement, (20, 0)), (total_statement, ())):
            sql, values = statement("riverbend", pairs)
            told = [row[3] for row in long.execute(f"EXPLAIN QUERY PLAN {sql}", (*values, *place))]
            sorted_too = "USE TEMP B-TREE FOR ORDER BY" if "patient" in dict(pairs) else ""
            for step in told:
                assert step == sorted_too or FRAME.fullmatch(step) or SEARCHED.fullmatch(step), (pairs, step)
            by_time = [step for step in told if "access_by_time" in step and "at_ms" not in step]
            assert not by_time or looked_through(pairs), (pairs, told)
