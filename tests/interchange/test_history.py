"""Every version kept: vread, history of one and of a type, retention, and databases of before."""

import asyncio
import itertools
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.config.service import History, Tenant
from engine.fhir.versions.names import name_in
from engine.interchange.rest.history import kept_since, take_old
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.history import (
    HistorySpan,
    ended_versions,
    first_kept,
    former_version,
    last_unknown,
    take_versions,
    versions_of_one,
)
from engine.interchange.store.search.date import NEVER
from engine.interchange.store.sqlite import connect, prepare
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import StoredVersion, Transaction, VersionMethod, milliseconds
from engine.interchange.store.verify import verify
from tests.interchange.kit import BASES, Inside, Running, issue, merge_body, patient, running_inside
from tests.interchange.least import least, version_of

START = datetime(2026, 1, 1, tzinfo=UTC)


def changed(service: Running, base: str, path: str, **elements: Any) -> dict[str, Any]:
    """Write the next version of a resource with some elements and return it."""
    body = {**service.ask("GET", base + path).json(), **elements}
    answer = service.ask("PUT", base + path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def walked(service: Running, path: str) -> list[dict[str, Any]]:
    """Return all entries of a history, page by page."""
    entries: list[dict[str, Any]] = []
    while path:
        bundle = service.ask("GET", path).json()
        assert bundle["type"] == "history"
        entries += bundle.get("entry", [])
        following = [one["url"] for one in bundle["link"] if one["relation"] == "next"]
        path = following[0].removeprefix(service.url) if following else ""
    return entries


@pytest.mark.parametrize("type_name", KEPT)
def test_vread(service: Running, base: str, type_name: str) -> None:
    """N-101: each version of every type is as it was written, with its own tag; 304 for who has it."""
    name, owner = name_in(version_of(base), type_name), service.create(base)["id"]
    body = patient() if type_name == "Patient" else least(type_name, owner, version_of(base))
    told = {"prefer": "create-always"}
    first = service.ask("POST", f"{base}/{name}", json=body, headers=told).json()
    second = changed(service, base, f"/{name}/{first['id']}", language="en")
    for number, kept in (("1", first), ("2", second)):
        address = f"{base}/{name}/{first['id']}/_history/{number}"
        answer = service.ask("GET", address)
        assert (answer.status_code, answer.headers["etag"], answer.json()) == (200, f'W/"{number}"', kept)
        assert answer.headers["last-modified"]
        again = service.ask("GET", address, headers={"if-none-match": f'W/"{number}"'})
        assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("vid", ["0", "3", "-1", "01", "x", "1.0", "99999999999999999999999", "%D9%A1"])
def test_no_such_version(service: Running, base: str, vid: str) -> None:
    """N-101: what is no version of a resource is 404, whatever it looks like; so is one of no resource."""
    made = service.create(base)
    changed(service, base, f"/Patient/{made['id']}")
    issue(service.ask("GET", f"{base}/Patient/{made['id']}/_history/{vid}"), 404, "not-found")
    issue(service.ask("GET", f"{base}/Patient/nobody/_history/1"), 404, "not-found")


@pytest.mark.parametrize("path", ["Patient/{}/_history/", "Patient/{}/_history/1/x", "Patient/_history/1", "_history"])
def test_addresses_beside_history(service: Running, base: str, path: str) -> None:
    """N-101: what looks like a version's address and is none is 404; only GET is for versions."""
    made = service.create(base)
    issue(service.ask("GET", f"{base}/{path.format(made['id'])}"), 404, "not-supported")
    answer = service.ask("PUT", f"{base}/Patient/{made['id']}/_history/1", json=made)
    issue(answer, 405, "not-supported")
    assert answer.headers["allow"] == "GET, HEAD"


def test_history_of_one(service: Running, base: str) -> None:
    """N-102: every version, the newest first, with the request that made it and its answer."""
    made = service.create(base)
    path = f"/Patient/{made['id']}"
    last = [changed(service, base, path, birthDate=day) for day in ("1984-02-28", "1984-02-27")][-1]
    bundle = service.ask("GET", f"{base}{path}/_history").json()
    assert (bundle["type"], bundle["total"], "meta" in bundle) == ("history", 3, False)
    assert [one["resource"]["meta"]["versionId"] for one in bundle["entry"]] == ["3", "2", "1"]
    assert (bundle["entry"][0]["resource"], bundle["entry"][2]["resource"]) == (last, made)
    assert [one["request"] for one in bundle["entry"]] == [
        {"method": "PUT", "url": path[1:]},
        {"method": "PUT", "url": path[1:]},
        {"method": "POST", "url": "Patient"},
    ]
    assert [one["response"]["status"] for one in bundle["entry"]] == ["200", "200", "201"]
    assert [one["response"]["etag"] for one in bundle["entry"]] == ['W/"3"', 'W/"2"', 'W/"1"']
    assert {one["fullUrl"] for one in bundle["entry"]} == {f"{service.url}{base}{path}"}
    issue(service.ask("GET", f"{base}/Patient/nobody/_history"), 404, "not-found")


def test_history_of_what_a_put_made(service: Running, base: str) -> None:
    """N-102: a resource that was made under its client's id was put there."""
    body = {**least("Location", ""), "id": f"put-{base.count('/')}-here"}
    assert service.ask("PUT", f"{base}/Location/{body['id']}", json=body).status_code == 201
    (entry,) = service.ask("GET", f"{base}/Location/{body['id']}/_history").json()["entry"]
    assert (entry["request"], entry["response"]["status"]) == (
        {"method": "PUT", "url": f"Location/{body['id']}"},
        "201",
    )


def test_pages_and_moments(service: Running, base: str) -> None:
    """N-102: pages by `_count`, versions `_since` a moment; a link repeats what it was given for."""
    made = service.create(base)
    path = f"{base}/Patient/{made['id']}"
    kept = [changed(service, base, f"/Patient/{made['id']}", birthDate=f"198{number}") for number in range(4)]
    assert [one["resource"]["meta"]["versionId"] for one in walked(service, f"{path}/_history?_count=2")] == [*"54321"]
    since = kept[1]["meta"]["lastUpdated"].replace("+", "%2B")
    bundle = service.ask("GET", f"{path}/_history?_since={since}&_count=2").json()
    assert bundle["total"] == 3
    assert [one["resource"]["meta"]["versionId"] for one in walked(service, f"{path}/_history?_since={since}")] == [
        *"543"
    ]
    none = service.ask("GET", f"{path}/_history?_count=0").json()
    assert (none["total"], none.get("entry")) == (5, None)
    following = next(one["url"] for one in bundle["link"] if one["relation"] == "next").removeprefix(service.url)
    other = service.create(base)["id"]
    issue(service.ask("GET", following.replace(made["id"], other)), 400, "invalid")
    issue(service.ask("GET", f"{following}&_count=3"), 400, "invalid")


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("_since=yesterday", "invalid"),
        ("_since=2025-07-01T10:00", "invalid"),
        ("_count=x", "invalid"),
        ("_count=1&_count=2", "invalid"),
        ("_at=2025", "not-supported"),
        ("family=x", "not-supported"),
        ("_cursor=x", "invalid"),
    ],
)
def test_parameters_of_a_history(service: Running, base: str, query: str, code: str) -> None:
    """N-102: what a history does not know, or cannot read, is refused."""
    made = service.create(base)
    for path in (f"Patient/{made['id']}/_history", "Patient/_history"):
        issue(service.ask("GET", f"{base}/{path}?{query}"), 400, code)


def test_history_of_a_type(own_service: Running) -> None:
    """N-103: every version of every resource of the type, the newest first, while others write."""
    service = own_service
    people = [service.create("/fhir/R4") for _ in range(5)]
    for person in people[:3]:
        changed(service, "/fhir/R4", f"/Patient/{person['id']}", birthDate="1984")
    page = service.ask("GET", "/fhir/R4/Patient/_history?_count=3").json()
    assert page["total"] == 8
    following = next(one["url"] for one in page["link"] if one["relation"] == "next").removeprefix(service.url)
    changed(service, "/fhir/R4", f"/Patient/{people[4]['id']}", birthDate="1985")
    entries = [*page["entry"], *walked(service, following)]
    told = [(entry["resource"]["id"], entry["resource"]["meta"]["versionId"]) for entry in entries]
    assert sorted(told) == sorted([(person["id"], "1") for person in people] + [(one["id"], "2") for one in people[:3]])
    moments = [entry["resource"]["meta"]["lastUpdated"] for entry in entries]
    assert moments == sorted(moments, reverse=True)
    since = entries[2]["resource"]["meta"]["lastUpdated"].replace("+", "%2B")
    stu3 = walked(service, f"/fhir/Patient/_history?_since={since}&_count=2")
    assert len(stu3) == 4
    assert stu3[0]["fullUrl"].startswith(f"{service.url}/fhir/Patient/")


@pytest.mark.parametrize(
    ("client", "status"),
    [("physician", 200), ("read", 200), ("system", 200), ("pread", 403), ("patient360", 403), ("administrative", 200)],
)
def test_who_reads_the_history_of_a_type(service: Running, base: str, client: str, status: int) -> None:
    """N-103: a token for one type does not read all of it, although it reads each of them."""
    made = service.create(base)["id"]
    assert service.ask("GET", f"{base}/Patient/_history?_count=1", client=client).status_code == status
    one = service.ask("GET", f"{base}/Patient/{made}/_history", client=client)
    assert one.status_code == (403 if client == "patient360" else 200)
    old = service.ask("GET", f"{base}/Patient/{made}/_history/1", client=client)
    assert old.status_code == one.status_code
    assert service.ask("GET", f"{base}/Condition/_history", client="administrative").status_code == 403


def test_a_merge_is_in_the_history(service: Running, base: str) -> None:
    """N-104: source, target and what was re-pointed have a version from before the merge and one from after it."""
    source, target = service.create(base)["id"], service.create(base)["id"]
    chart = service.ask("POST", f"{base}/Condition", json=least("Condition", source, version_of(base))).json()["id"]
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target)).status_code == 200
    for path in (f"Patient/{source}", f"Patient/{target}", f"Condition/{chart}"):
        entries = walked(service, f"{base}/{path}/_history")
        assert [entry["resource"]["meta"]["versionId"] for entry in entries] == ["2", "1"]
    assert "link" not in service.ask("GET", f"{base}/Patient/{source}/_history/1").json()
    before = service.ask("GET", f"{base}/Condition/{chart}/_history/1").json()
    element = "patient" if "patient" in before else "subject"
    assert before[element]["reference"] == f"Patient/{source}"
    told = [one["fullUrl"] for one in service.ask("GET", f"{base}/Patient/_history?_count=20").json()["entry"]]
    assert [told.count(f"{service.url}{base}/Patient/{one}") for one in (source, target)] == [2, 2]


def test_tenants_do_not_see_each_other(service: Running, base: str) -> None:
    """N-108: versions of another tenant are absent."""
    made = service.create(base)["id"]
    for path in (f"Patient/{made}/_history", f"Patient/{made}/_history/1"):
        issue(service.ask("GET", f"{base}/{path}", client="other"), 404, "not-found")
    told = service.ask("GET", f"{base}/Patient/_history?_count=100", client="other").json().get("entry", [])
    assert not [one for one in told if made in one["fullUrl"]]


def test_retention(tmp_path: Path) -> None:
    """N-105: versions are gone once their days are over, first from the answers, then from the disk."""
    tenants = {"riverbend": Tenant(history=History(keep=30)), "lakeside": Tenant(), "lax": Tenant()}
    with running_inside(tmp_path, tenants=tenants) as service:
        made = service.create()
        path = f"/fhir/R4/Patient/{made['id']}"
        changed(service, "/fhir/R4", f"/Patient/{made['id']}", birthDate="1985")
        other = service.create(client="other")["id"]
        assert service.ask("PUT", f"/fhir/R4/Patient/{other}", json=patient(id=other), client="other").is_success
        service.advance(29 * 86_400)
        service.tokens.clear()
        changed(service, "/fhir/R4", f"/Patient/{made['id']}", birthDate="1986")
        assert service.run(take_old(service.app.service)) == 0
        service.advance(2 * 86_400)
        service.tokens.clear()
        for _ in range(2):
            issue(service.ask("GET", f"{path}/_history/1"), 410, "not-found")
            assert service.ask("GET", f"{path}/_history/2").json()["birthDate"] == "1985"
            bundle = service.ask("GET", f"{path}/_history").json()
            assert (bundle["total"], len(bundle["entry"])) == (2, 2)
            assert bundle["meta"]["tag"][0]["display"] == "Versions before 2 are not kept."
            assert service.ask("GET", "/fhir/R4/Patient/_history").json()["total"] == 2
            assert service.ask("GET", f"/fhir/R4/Patient/{other}/_history/1", client="other").status_code == 200
            assert service.run(take_old(service.app.service)) in {0, 1}
        assert versions(service) == 2
        assert service.ask("GET", path).json()["birthDate"] == "1986"


def versions(service: Inside) -> int:
    """Return how many former versions are on the disk."""
    rows = service.app.service.store.reader().execute("SELECT count(*) FROM version")
    return int(rows.fetchone()[0])


def test_days_or_all() -> None:
    """N-105: all keeps for ever; a number of days from when the next version came."""
    assert kept_since(Tenant(), START) < 0
    assert kept_since(Tenant(history=History(keep=1)), START) == milliseconds(START - timedelta(days=1))


def test_versions_in_a_store(tmp_path: Path) -> None:
    """N-101, N-105: a store keeps each body once, gives it by its number, and takes the oldest first."""
    store = Store(tmp_path / "s.db", ["t"], lambda: START, INDEXERS)

    def write(inner: Transaction) -> StoredVersion:
        kept = inner.create("Patient", "p", patient(), VersionMethod.NEW)
        for number in range(4):
            inner.at += timedelta(days=1)
            kept = inner.update(kept, patient(birthDate=f"198{number}"), VersionMethod.PATCH)
        return kept

    last = asyncio.run(store.write("t", write))
    ended = milliseconds(START + timedelta(days=2, hours=1))
    old = store.read("t", lambda inner: ended_versions(inner, "Patient", ended, 10))
    assert len(old) == 2
    asyncio.run(store.write("t", lambda inner: take_versions(inner, old)))
    assert store.read("t", lambda inner: ended_versions(inner, "Patient", ended, 10)) == []

    def look(inner: Transaction) -> tuple[list[int], str, int, int]:
        found = [number for number in range(7) if former_version(inner, last, number, 0)]
        third = former_version(inner, last, 3, 0)
        assert third is not None
        return found, third.change, first_kept(inner, last, 0), last_unknown(inner, last)

    assert store.read("t", look) == ([3, 4], "PATCH", 3, 0)
    store.close()
    assert verify(tmp_path / "s.db", INDEXERS).faults == {}


# A hundred thousand former versions of one resource: 1 to 100,000, a second apart.
FORMER = 100_000
MANY = (
    "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {former})"
    " INSERT INTO version (tenant, type, key, version, updated_ms, ended_ms, change, body)"
    " SELECT tenant, type, key, n, updated_ms + n * 1000, updated_ms + (n + 1) * 1000, 'PUT', body FROM n, resource"
)
NEWEST = "UPDATE resource SET version = {former} + 1, updated_ms = updated_ms + ({former} + 1) * 1000"


def test_a_hundred_thousand_versions(tmp_path: Path) -> None:
    """N-109: reading the newest, any former one, and the first page of a history costs what it did with one version."""
    prepare(tmp_path / "s.db")
    connection = connect(tmp_path / "s.db")
    connection.execute("BEGIN")
    inner = Transaction(connection, 1, START, INDEXERS)
    inner.create("Patient", "p", patient())

    def steps(work: Callable[[StoredVersion], Any]) -> int:
        """Return how many instructions SQLite carries out, ten at a time."""
        stored, count = inner.get("Patient", "p"), itertools.count()
        assert stored is not None
        connection.set_progress_handler(lambda: next(count) < 0, 10)
        work(stored)
        connection.set_progress_handler(None, 0)
        return next(count) * 10

    def cost() -> list[int]:
        return [
            steps(lambda _: inner.get("Patient", "p")),
            steps(lambda stored: former_version(inner, stored, 1, NEVER)),
            steps(lambda stored: former_version(inner, stored, FORMER, NEVER)),
            steps(lambda stored: versions_of_one(inner, stored, HistorySpan(0, NEVER), 1, None)),
        ]

    before = cost()
    for sql in (MANY, NEWEST):
        connection.execute(sql.format(former=FORMER))
    after = cost()
    assert after[0] == before[0]
    assert all(many <= one + 50 for one, many in zip(before, after, strict=True)), (before, after)
    newest = inner.get("Patient", "p")
    assert newest is not None
    found = versions_of_one(inner, newest, HistorySpan(milliseconds(START) + 99_999_000, NEVER), 3, None)
    assert ([one.version for one in found.page], found.total) == ([100_001, 100_000, 99_999], 3)
    assert versions_of_one(inner, newest, HistorySpan(0, NEVER), 0, None).total == FORMER + 1
    connection.execute("ROLLBACK")
    connection.close()


def test_a_database_of_before(tmp_path: Path) -> None:
    """N-107: what was there is taken along; its former versions are unknown, and the next ones are kept."""
    path = tmp_path / "interchange.db"
    with running_inside(tmp_path) as service:
        ids = [service.create()["id"] for _ in range(2)]
        changed(service, "/fhir/R4", f"/Patient/{ids[0]}", birthDate="1985")
    connection = sqlite3.connect(path)
    for statement in (
        "DROP TABLE version",
        "DROP TABLE unknown_version",
        "DROP INDEX resource_gone_by_update",
        "ALTER TABLE resource DROP COLUMN change",
        "DELETE FROM _sqlite_migrations WHERE name='versions'",
    ):
        connection.execute(statement)
    connection.commit()
    connection.close()
    with running_inside(tmp_path) as service:
        old = f"/fhir/R4/Patient/{ids[0]}"
        issue(service.ask("GET", f"{old}/_history/1"), 404, "not-found")
        changed(service, "/fhir/R4", f"/Patient/{ids[0]}", birthDate="1986")
        bundle = service.ask("GET", f"{old}/_history").json()
        assert [one["resource"]["meta"]["versionId"] for one in bundle["entry"]] == ["3", "2"]
        assert [one["request"]["method"] for one in bundle["entry"]] == ["PUT", "PUT"]
        assert bundle["meta"]["tag"][0]["display"] == "Versions before 2 are not kept."
        young = service.ask("GET", f"/fhir/R4/Patient/{ids[1]}/_history").json()
        assert ([one["request"]["method"] for one in young["entry"]], "meta" in young) == (["POST"], False)
    assert verify(path, INDEXERS).faults == {}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE version SET body=substr(body, 1, 40)",
        "UPDATE version SET version=9",
        "UPDATE version SET tenant=2",
        "UPDATE version SET body=X''",
    ],
)
def test_damage_to_a_version_is_counted(tmp_path: Path, damage: str) -> None:
    """N-101: `interchange verify` knows the body of each version."""
    store = Store(tmp_path / "s.db", ["t"], lambda: START, INDEXERS)
    asyncio.run(store.write("t", lambda inner: inner.update(inner.create("Patient", "p", patient()), patient())))
    store.close()
    assert verify(tmp_path / "s.db", INDEXERS).faults == {}
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.execute(damage)
    connection.commit()
    connection.close()
    assert verify(tmp_path / "s.db", INDEXERS).faults == {"versions": 1}


def test_what_the_service_says_of_it(service: Running, base: str) -> None:
    """N-101: the CapabilityStatement names vread and history for each type."""
    for one in service.ask("GET", f"{base}/metadata").json()["rest"][0]["resource"]:
        codes = {each["code"] for each in one["interaction"]}
        if one["type"] in {"AuditEvent", "Bundle"}:
            continue
        assert codes >= {"read", "vread", "history-instance", "history-type"}
        assert (one["versioning"], one["readHistory"]) == ("versioned", True)
    assert set(BASES.values()) >= {base}
