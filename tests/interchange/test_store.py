"""The store: every search by an index, writes that share a commit, one service to a file."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.database.connection import Connection
from engine.errors import StartError
from engine.interchange.rest.patient.index import index_patient
from engine.interchange.store import history, references, transaction
from engine.interchange.store.place import Place, place_of
from engine.interchange.store.sqlite import connect
from engine.interchange.store.store import Store
from engine.interchange.store.writer import StoreFailedError
from engine.interchange.tokens import assertion, code, vault
from tests.interchange.kit import patient

START = datetime(2026, 1, 1, tzinfo=UTC)
INDEX_ROWS = (
    "SELECT parameter, folded, exact FROM string_index",
    "SELECT parameter, code, system FROM token_index",
    "SELECT parameter, low, high FROM date_index",
    "SELECT parameter, value, system, record_number FROM identifier_index",
)


@contextlib.contextmanager
def opened(place: Place) -> Iterator[Store]:
    """Open a store whose clock goes a second on with each look at it, until the block ends."""
    ticks = itertools.count()
    found = Store(place, ["t", "u"], lambda: START + timedelta(seconds=next(ticks)), {"Patient": index_patient})
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store on SQLite."""
    with opened(tmp_path / "s.db") as found:
        yield found


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store on each database."""
    place = tmp_path / "s.db" if request.param == "SQLite" else place_of(request.getfixturevalue("database"))
    with opened(place) as found:
        yield found


def plan(connection: Connection, sql: str, arguments: tuple[Any, ...]) -> list[str]:
    """Return the steps by which SQLite answers a query."""
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", arguments)]


HOT = pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        (transaction.BY_ID, (1, "Patient", "a")),
        (transaction.BY_KEY, (1,)),
        (transaction.UPDATE, (1, 1, None, b"", "PUT", 1)),
        (transaction.KEEP, (1, 1)),
        (history.VERSION, (1, 1, 0)),
        (history.OF_ONE, (1, 5, 0, 0, 20)),
        (history.FIRST_OF_ONE, (1, 0, 0)),
        (history.UNKNOWN, (1,)),
        (history.FIRST, (1, 0)),
        (history.OF_TYPE, (*(1, "Patient", 0, 9, 9, 9) * 3, 0, 20)),
        (history.COUNT_TYPE, (*(1, "Patient", 0) * 3, 0)),
        (history.ENDED, (1, "Patient", 0, 0, 20)),
        (history.TAKE, (1,)),
        (transaction.HOLDERS, (1, "Patient.identifier", "v", "s")),
        (transaction.RECORD_NUMBER_HOLDERS, (1, "Patient.identifier", "v", "s")),
        (transaction.MOVE_IDENTIFIERS, (1, 2)),
        (transaction.MOVE_SURVIVOR, ("a", 1, "Patient", "b")),
        (transaction.REFERRERS.format(rows=""), (1, "Patient/a")),
        (transaction.REFERRERS.format(rows=" AND parameter IN (?)"), (1, "Patient/a", "Provenance.target")),
        (references.REDIRECT, ("Patient/b", 1, "Patient/a", 1, 2)),
        (references.DROP_TARGET, (1, "Patient/a", 1, 2)),
        (references.DROP_UNNAMED, (1, "Patient/b")),
        (transaction.COUNT_CODE, (1, "Patient.demographics", "x")),
        (vault.GET, (b"",)),
        (vault.REVOKE, (b"",)),
        (vault.REVOKE_REFRESH, (1,)),
        (vault.FORGET, (1,)),
        (vault.ROTATE, (b"",)),
        (vault.REVOKE_FAMILY, (1,)),
        (code.GET, (b"",)),
        (code.USE, (b"",)),
        (code.FORGET, (1,)),
        (assertion.FORGET, (1,)),
    ],
)


@HOT
def test_every_other_statement_uses_an_index(store: Store, sql: str, arguments: tuple[Any, ...]) -> None:
    """Look-ups and changes touch the rows they name and no others."""
    assert not [
        step for step in plan(store.reader(), sql, arguments) if step.startswith("SCAN") and "CONSTANT" not in step
    ]


@pytest.mark.parametrize(
    ("sql", "arguments"),
    [
        (history.OF_ONE, (1, 5, 0, 0, 20)),
        (history.FIRST, (1, 0)),
        (history.OF_TYPE, (*(1, "Patient", 0, 9, 9, 9) * 3, 0, 20)),
        (history.ENDED, (1, "Patient", 0, 0, 20)),
    ],
)
def test_a_page_of_history_sorts_nothing(store: Store, sql: str, arguments: tuple[Any, ...]) -> None:
    """N-106: a page of history costs what it holds, however many versions there are: an index gives their order."""
    assert not [step for step in plan(store.reader(), sql, arguments) if "TEMP B-TREE" in step]


def test_failures_undo_only_their_own(either: Store) -> None:
    """Writes that share a commit stand or fall each for itself."""

    def write(name: str, *, fails: bool) -> Any:
        def work(inner: transaction.Transaction) -> str:
            inner.create("Patient", name, patient())
            if fails:
                raise ValueError(name)
            return name

        return either.write("t", work)

    async def together() -> list[Any]:
        return await asyncio.gather(*(write(f"p{n}", fails=n % 3 == 0) for n in range(30)), return_exceptions=True)

    results = asyncio.run(together())
    assert [isinstance(result, ValueError) for result in results] == [n % 3 == 0 for n in range(30)]
    kept = [either.read("t", lambda inner, n=n: inner.get("Patient", f"p{n}")) is not None for n in range(30)]
    assert kept == [n % 3 != 0 for n in range(30)]


def test_a_statement_that_fails_is_not_the_disk(either: Store) -> None:
    """A constraint fails its own request; the store goes on."""

    def twice(inner: transaction.Transaction) -> None:
        inner.create("Patient", "same", patient())
        inner.create("Patient", "same", patient())

    with pytest.raises(Exception, match=r"(?i)unique"):
        asyncio.run(either.write("t", twice))
    assert not either.failed
    assert asyncio.run(either.write("t", lambda inner: inner.create("Patient", "other", patient()))).version == 1


def test_an_io_error_stops_all_writing(store: Store) -> None:
    """After an I/O error no write is taken any more, and readiness can say so."""

    def broken(_: transaction.Transaction) -> None:
        raise OSError(5, "Input/output error")

    for _ in range(2):
        with pytest.raises(StoreFailedError):
            asyncio.run(store.write("t", broken))
    assert store.failed


def test_versions_never_go_back_in_time(either: Store) -> None:
    """A clock that was set back does not set lastUpdated back."""
    first = asyncio.run(either.write("t", lambda inner: inner.create("Patient", "p", patient())))

    def back(inner: transaction.Transaction) -> transaction.StoredVersion:
        inner.at = START - timedelta(days=1)
        found = inner.get("Patient", "p")
        assert found is not None
        return inner.update(found, patient())

    second = asyncio.run(either.write("t", back))
    assert (second.version, second.updated_ms) == (2, first.updated_ms)


def test_an_update_leaves_only_its_own_rows(either: Store) -> None:
    """The index rows after an update are those of the new version, no more and no less."""
    changed = patient(
        name=[{"family": "Neu", "given": ["B"]}], birthDate="1999", identifier=[{"system": "s", "value": "v"}]
    )
    asyncio.run(either.write("t", lambda inner: inner.create("Patient", "p", patient())))

    def update(inner: transaction.Transaction) -> None:
        found = inner.get("Patient", "p")
        assert found is not None
        inner.update(found, changed)

    asyncio.run(either.write("t", update))
    rows = [{tuple(row) for row in either.reader().execute(sql)} for sql in INDEX_ROWS]
    index = index_patient(changed)
    assert rows == [set(index.strings), set(index.tokens), set(index.dates), set(index.identifiers)]


def test_one_service_to_a_file(store: Store, tmp_path: Path) -> None:
    """A second service on the same file is refused; the pragmas are what durability needs."""
    with pytest.raises(StartError, match="another interchange service"):
        Store(tmp_path / "s.db", [], lambda: START, {})
    assert store.reader().execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert store.reader().execute("PRAGMA synchronous").fetchone()[0] == 2


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql://u:secret@h/d", "postgresql://u@h/d?password=secret", "postgresql://h/d?pass=secret"),
        *("mysql://u:secret@h/d", "sqlite:///", "x.db"),
    ],
)
def test_other_databases_are_refused_by_name(url: str) -> None:
    """A URL of neither database, and one with a password, is refused without showing the password."""
    with pytest.raises(StartError) as told:
        place_of(url)
    assert "secret" not in str(told.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """A file that SQLite cannot read is refused with its name."""
    path = tmp_path / "no.db"
    path.write_bytes(b"x" * 8192)
    with pytest.raises(StartError, match=r"no\.db .*not a database.*--database"):
        Store(path, [], lambda: START, {})


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """The file of another program, such as the engine's journal, is refused with its name; no table is added."""
    path = tmp_path / "journal.db"
    other = connect(path)
    other.execute("CREATE TABLE entry (number INTEGER PRIMARY KEY)")
    with pytest.raises(StartError, match=r"journal\.db is another program's: name another"):
        Store(path, [], lambda: START, {})
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("entry",)]
    other.close()
