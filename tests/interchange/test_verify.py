"""`interchange verify`: a database that is whole, and each kind of damage."""

import asyncio
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine.errors import StartError
from engine.fhir.schema import FhirVersion
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.job import AsyncJob, JobState, add_job, end, take_up
from engine.interchange.store.sqlite import connect
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.verify import verify
from tests.interchange.kit import patient, record_number
from tests.interchange.lives import opened
from tests.interchange.nursery import ran


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A database with an updated patient, two that were merged in a chain, and a resource of a chart."""
    store = opened(tmp_path)

    def work(inner: Transaction) -> None:
        kept = [
            inner.create("Patient", f"p{number}", patient(identifier=[record_number(str(number))]))
            for number in range(4)
        ]
        changed = inner.update(kept[0], {**kept[0].resource(), "birthDate": "1999"})
        inner.retire(kept[1], {**kept[1].resource(), "active": False}, kept[2])
        inner.retire(kept[2], kept[2].resource(), changed)
        condition: dict[str, Any] = {"resourceType": "Condition", "subject": {"reference": "Patient/p0"}}
        inner.create(
            "Condition", "c", {**condition, "onsetDateTime": "2025-07-01", "code": {"coding": [{"code": "x"}]}}
        )

        inner.create("RequestGroup", "o", {"resourceType": "RequestGroup", "status": "active"})

        for name in ("j1", "j2"):
            add_job(inner, AsyncJob(name, "t", "everything", name, FhirVersion.R4, {}, "client", "", inner.at))
        ended = take_up(inner.connection, 2, inner.at)
        assert ended is not None
        assert end(inner.connection, 2, 1, JobState.DONE, inner.at, b'{"resourceType":"Parameters"}')

    asyncio.run(store.write("t", work))
    store.close()
    return tmp_path / "s.db"


def command(path: Path) -> "subprocess.CompletedProcess[str]":
    """Run the command over a database."""
    return ran("interchange", "verify", "--database", f"sqlite:///{path}")


def test_a_whole_database(path: Path) -> None:
    """After updates and merges in a chain every row is the one that the bodies ask for."""
    assert verify(path, INDEXERS).faults == {}
    done = command(path)
    assert (done.returncode, done.stdout) == (0, "6 resources, 0 faults\n")


DAMAGE = {
    "strings missing": ("DELETE FROM string_index WHERE key=1 AND parameter='Patient.family'", {"strings": 1}),
    "strings changed": ("UPDATE string_index SET folded='other' WHERE parameter='Patient.family'", {"strings": 2}),
    "tokens": ("DELETE FROM token_index WHERE parameter='Patient.gender'", {"tokens": 2}),
    "dates": ("UPDATE date_index SET low=low+1 WHERE parameter='Patient.birthdate' AND key=1", {"dates": 1}),
    "references": ("UPDATE reference_index SET target='Patient/p3'", {"references": 1}),
    "identifier of another": ("UPDATE identifier_index SET key=4 WHERE origin=2", {"identifiers": 1}),
    "identifier no record number": ("UPDATE identifier_index SET record_number=0", {"identifiers": 4}),
    "tenant": ("UPDATE token_index SET tenant=2 WHERE key=1", {"tokens": 1}),
    "strays": ("INSERT INTO date_index (tenant, key, parameter, low, high) VALUES (1, 99, 'x', 1, 2)", {"strays": 1}),
    "counts": ("UPDATE token_count SET records=records+1", {"counts": 2}),
    "counts of nothing": ("INSERT INTO token_count VALUES (1, 'RequestGroup.status', 'draft', '', 3)", {"counts": 1}),
    "body cut": ("UPDATE resource SET body=substr(body, 1, 40) WHERE id='p3'", {"bodies": 1}),
    "body of another version": ("UPDATE resource SET version=version+1 WHERE id='p3'", {"bodies": 1}),
    "body of another": ("UPDATE resource SET id='p9' WHERE id='p3'", {"bodies": 1}),
    "numbers of the merged": ("DELETE FROM identifier_index WHERE origin IN (2, 3)", {"identifiers": 2}),
    "job ended and not": ("UPDATE job SET ended_ms=1 WHERE id='j1'", {"jobs": 1}),
    "job not ended": ("UPDATE job SET state='running' WHERE id='j2'", {"jobs": 1}),
    "job in no state": ("UPDATE job SET state='lost'", {"jobs": 2}),
    "job never taken up": ("UPDATE job SET attempts=0 WHERE id='j2'", {"jobs": 1}),
    "result cut": ("UPDATE job SET body=substr(body, 1, 2) WHERE id='j2'", {"jobs": 1}),
    "result gone": ("UPDATE job SET body=x'' WHERE id='j2'", {"jobs": 1}),
    "job of no tenant": ("UPDATE job SET tenant=9 WHERE id='j1'", {"jobs": 1}),
    "survivor": ("UPDATE resource SET survivor='gone' WHERE id='p1'", {"survivors": 1, "identifiers": 1}),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_each_kind_of_damage_is_counted(path: Path, name: str) -> None:
    """What does not fit together is counted by kind."""
    sql, faults = DAMAGE[name]
    connection = connect(path)
    connection.execute(sql)
    connection.close()
    assert dict(verify(path, INDEXERS).faults) == faults


def lived(folder: Path, *deeds: str) -> Path:
    """Return a database in which `a`, `b` and `c` were merged, deleted and brought back, each a second later."""
    moments = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number) for number in count())
    store = Store(folder / "s.db", ["t"], lambda: next(moments), INDEXERS)

    def work(inner: Transaction, deed: str) -> None:
        if deed == "made":
            for number, name in enumerate("abc"):
                inner.create("Patient", name, patient(identifier=[record_number(str(number))]))
            return
        what, of, *into = deed.split()
        stored = inner.get("Patient", of)
        assert stored is not None
        if what == "merge":
            survivor = inner.get("Patient", into[0])
            assert survivor is not None
            inner.retire(stored, stored.resource(), survivor)
        elif what == "delete":
            inner.delete(stored)
        else:
            inner.bring_back(stored, patient())

    for deed in ("made", *deeds):
        asyncio.run(store.write("t", partial(work, deed=deed)))
    store.close()
    return folder / "s.db"


FREED = {
    "deleted": ("merge a b", "delete b"),
    "deleted and brought back": ("merge a b", "delete b", "restore b"),
    "brought back and merged": ("merge a b", "delete b", "restore b", "merge b c"),
    "kept": ("delete b", "restore b", "merge a b", "merge b c"),
}


@pytest.mark.parametrize("name", FREED)
def test_numbers_of_a_deleted_survivor_are_free(tmp_path: Path, name: str) -> None:
    """A survivor that was deleted, and maybe brought back or merged away since, leaves no number and no fault."""
    path = lived(tmp_path, *FREED[name])
    assert verify(path, INDEXERS).faults == {}
    connection = connect(path)
    held = connection.execute("SELECT count(*) FROM identifier_index WHERE origin=1").fetchone()[0]
    assert (held > 0) is (name == "kept")
    connection.execute("DELETE FROM identifier_index WHERE origin=1")
    connection.close()
    assert verify(path, INDEXERS).faults == ({"identifiers": 1} if name == "kept" else {})


def test_where_versions_are_forgotten_nothing_is_damage(tmp_path: Path) -> None:
    """A deletion may be among the versions that are kept no longer: missing numbers are no fault then."""
    path = lived(tmp_path, "merge a b", "delete b", "restore b")
    connection = connect(path)
    connection.execute("DELETE FROM version")
    connection.close()
    assert verify(path, INDEXERS).faults == {}


def test_damage_is_told_without_patients(path: Path) -> None:
    """The command ends with 1, tells kinds and counts, and nothing of a patient."""
    connection = connect(path)
    connection.execute("DELETE FROM string_index")
    connection.close()
    done = command(path)
    assert (done.returncode, done.stdout) == (1, "6 resources, 2 faults\nstrings: 2\n")
    assert "restore the last backup" in done.stderr


def test_broken_pages_are_counted(path: Path) -> None:
    """Pages that SQLite cannot read are a fault, not a crash."""
    connection = connect(path)
    pages = [page for (page,) in connection.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name LIKE '%_index'")]
    connection.close()
    broken = bytearray(path.read_bytes())
    for page in pages:
        broken[(page - 1) * 4096 : (page - 1) * 4096 + 200] = b"\xff" * 200
    path.write_bytes(broken)
    assert verify(path, INDEXERS).faults["pages"] > 0


def test_no_database(tmp_path: Path) -> None:
    """A name under which there is nothing is refused, and no file is made."""
    with pytest.raises(StartError, match="there is no database"):
        verify(tmp_path / "no.db", INDEXERS)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_database_of_the_service(tmp_path: Path) -> None:
    """An empty file, another program's and one that may not be read are refused in a line, not counted as damage."""
    (tmp_path / "empty.db").touch()
    other = connect(tmp_path / "journal.db")
    other.execute("CREATE TABLE entry (number INTEGER PRIMARY KEY)")
    other.close()
    said = {"empty.db": "start the service on it once", "journal.db": "another program's", "x" * 300: "too long"}
    for name, text in said.items():
        with pytest.raises(StartError, match=f"{name}.*{text}"):
            verify(tmp_path / name, INDEXERS)
