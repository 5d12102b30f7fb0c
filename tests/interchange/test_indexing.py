"""Databases of earlier versions are indexed again before anybody searches them, also after an interruption."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.interchange.rest.resource.catalogue import EDITION, INDEXERS
from engine.interchange.store import indexing
from engine.interchange.store.index import Index
from engine.interchange.store.sqlite import connect
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Indexer
from engine.interchange.store.verify import verify
from tests.interchange.kit import MRN, patient, record_number, running

START = datetime(2026, 1, 1, tzinfo=UTC)
STATE = "SELECT edition, reached, done FROM indexing"


def former(patient_: dict[str, Any]) -> Index:
    """Return the rows that a Patient had before telephone numbers were searched: its identifiers and its name."""
    made = INDEXERS["Patient"](patient_)
    return Index(
        identifiers=made.identifiers,
        strings=frozenset(row for row in made.strings if row.parameter in {"Patient.family", "Patient.given"}),
    )


def opened(path: Path, indexers: Mapping[str, Indexer], edition: str) -> Store:
    """Return a store of a version of the program."""
    return Store(path, ["riverbend", "lakeside"], lambda: START, indexers, edition=edition)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A database of an earlier version: five patients, of whom one was merged away, and one body nobody can read."""
    path = tmp_path / "interchange.db"
    store = opened(path, {"Patient": former}, "earlier")

    def work(transaction: Any) -> None:
        kept = [
            transaction.create("Patient", f"p{n}", patient(identifier=[record_number(str(n))], telecom=[phone(n)]))
            for n in range(6)
        ]
        transaction.retire(kept[1], kept[1].resource(), kept[2])
        transaction.connection.execute("UPDATE resource SET body = ? WHERE key = ?", (b"{", kept[5].key))

    asyncio.run(store.write("riverbend", work))
    store.close()
    return path


def phone(number: int) -> dict[str, str]:
    """Return a telephone number."""
    return {"system": "phone", "value": f"503 555 000{number}"}


def rows(path: Path) -> set[tuple[Any, ...]]:
    """Return the telephone numbers in the index, with their keys."""
    connection = connect(path, reading=True)
    found = set(connection.execute("SELECT key, code FROM token_index WHERE parameter = 'Patient.telecom'"))
    connection.close()
    return found


ALL = {(1, "5035550000"), (3, "5035550002"), (4, "5035550003"), (5, "5035550004")}


def test_an_older_database_is_indexed_again(older: Path) -> None:
    """N-208: each live resource gets the rows of today's parameters, once, and no other row changes."""
    assert rows(older) == set()
    opened(older, INDEXERS, EDITION).close()
    assert rows(older) == ALL
    assert verify(older, INDEXERS).faults == {"bodies": 1}
    connection = connect(older)
    assert connection.execute(STATE).fetchall() == [(EDITION, 6, 1)]
    changes = connection.total_changes
    indexing.bring_up_to(EDITION, connection, {}, "BEGIN IMMEDIATE")
    assert connection.total_changes == changes
    connection.close()


def test_it_goes_on_where_it_was_interrupted(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N-208: what is done stays done; few resources are in memory at a time, however large they are."""
    monkeypatch.setattr(indexing, "BATCH_BYTES", 1)
    seen: list[str] = []

    def dying(body: dict[str, Any]) -> Index:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(body["id"])
        return INDEXERS["Patient"](body)

    with pytest.raises(KeyboardInterrupt):
        opened(older, {"Patient": dying}, EDITION)
    connection = connect(older)
    assert connection.execute(STATE).fetchall() == [(EDITION, 3, 0)]
    connection.close()
    assert rows(older) == {(1, "5035550000"), (3, "5035550002")}

    def going_on(body: dict[str, Any]) -> Index:
        seen.append(body["id"])
        return INDEXERS["Patient"](body)

    opened(older, {"Patient": going_on}, EDITION).close()
    assert seen == ["p0", "p2", "p3", "p4"]
    assert rows(older) == ALL


def test_the_service_finds_them(tmp_path: Path, older: Path) -> None:
    """N-208: a service that is started on an older database finds everybody by the new parameters from the start."""
    connection = connect(older)
    connection.execute("DELETE FROM resource WHERE body = ?", (b"{",))
    connection.execute("DROP TABLE indexing")
    connection.execute("DELETE FROM _sqlite_migrations WHERE name = 'indexing'")
    connection.close()
    with running(tmp_path) as service:
        assert service.database == older
        found = service.ask("GET", "/fhir/R4/Patient?phone=503-555-0002").json()
        assert [entry["resource"]["id"] for entry in found["entry"]] == ["p2"]
        merged = service.ask("GET", f"/fhir/R4/Patient?identifier={MRN}|1&phone=5035550002").json()
        assert merged["total"] == 1
        assert service.ask("GET", "/fhir/R4/Patient?phone=5035550001").json()["total"] == 0
