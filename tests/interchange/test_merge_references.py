"""A merge moves what refers to the source: from every type, wherever the reference stands; or nothing at all."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest import merge as rest_merge
from engine.interchange.rest.merge import MergePair, merge
from engine.interchange.rest.resource.catalogue import INDEXERS, KEPT
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.interchange.kit import Running, issue, merge_body, patient
from tests.interchange.least import LEAST, least, version_of

Json = Any

URL = "https://x.example/about"


def order(service: Running, base: str, source: Any, target: Any, **more: Any) -> Any:
    """Send a merge."""
    return service.ask("POST", f"{base}/Patient/$merge", json=merge_body(source, target, **more))


def everywhere(about: str, url: str) -> dict[str, Json]:
    """Return elements that refer to a patient in an extension, below one, and in a contained resource."""
    deep = {"url": "deep", "valueReference": {"reference": f"Patient/{about}/_history/1"}}
    return {
        "contained": [
            {"resourceType": "Basic", "id": "b", "code": {"text": "x"}, "subject": {"reference": f"Patient/{about}"}}
        ],
        "extension": [
            {"url": URL, "valueReference": {"reference": f"{url}/Patient/{about}", "display": "Kept"}},
            {"url": URL, "extension": [deep, {"url": "own", "valueReference": {"reference": "#b"}}]},
        ],
    }


def expected(part: Json, old: str, new: str) -> Json:
    """Return a resource in which each reference to one patient, in any form, is the plain one to another."""
    if isinstance(part, dict):
        return {key: expected(value, old, new) for key, value in part.items() if key != "meta"}
    if isinstance(part, list):
        return [expected(item, old, new) for item in part]
    return f"Patient/{new}" if isinstance(part, str) and f"Patient/{old}" in part else part


@pytest.mark.parametrize("type_name", sorted(LEAST))
def test_every_type_moves(service: Running, base: str, type_name: str) -> None:
    """C-276, C-290: from every kept type and element; same id and content, next version, found by its update."""
    source, target = (service.create()["id"] for _ in range(2))
    version = version_of(base)
    name = name_in(version, type_name)
    # A Binary has no extensions, and contains nothing.
    more = {} if type_name == "Binary" else everywhere(source, f"{service.url}{base}")
    body = {**least(type_name, source, version), **more}
    made = service.ask("POST", f"{base}/{name}", json=body)
    assert made.status_code == 201, made.text
    kept = made.json()
    assert order(service, base, source, target).status_code == 200
    moved = service.ask("GET", f"{base}/{name}/{kept['id']}").json()
    assert {key: value for key, value in moved.items() if key != "meta"} == expected(kept, source, target)
    assert moved["meta"]["versionId"] == "2"
    assert moved["meta"]["lastUpdated"] > kept["meta"]["lastUpdated"]
    if KEPT[type_name].patient:
        for asked in (target, source):
            found = service.ask("GET", f"{base}/{name}?patient={asked}").json()
            assert [entry["resource"] for entry in found["entry"]] == [moved]
    again = service.ask("PUT", f"{base}/{name}/{kept['id']}", json=moved, headers={"if-match": 'W/"2"'})
    assert again.status_code == 200


def test_the_joined_chart(service: Running, base: str) -> None:
    """C-276, C-315: $everything of the target holds both charts, and that of the source names the target (410)."""
    source, target = (service.create()["id"] for _ in range(2))
    made = []
    for whose in (source, target):
        for type_name in ("Observation", "Coverage", "AllergyIntolerance"):
            body = least(type_name, whose, version_of(base))
            kept = service.ask("POST", f"{base}/{type_name}", json=body).json()
            made.append(f"{type_name}/{kept['id']}")
    assert order(service, base, source, target).status_code == 200
    chart = service.ask("GET", f"{base}/Patient/{target}/$everything").json()["entry"]
    found = [f"{one['resource']['resourceType']}/{one['resource']['id']}" for one in chart]
    assert sorted(found) == sorted([f"Patient/{target}", *made])
    gone = service.ask("GET", f"{base}/Patient/{source}/$everything")
    told = issue(gone, 410, "deleted" if base == "/fhir/R4" else "not-found")
    assert f"Patient/{target}" in told["diagnostics"]


def test_many_references_in_one_resource(service: Running, base: str) -> None:
    """C-276: each of several, also where the target stands beside the source; other patients stay."""
    source, target, third = (service.create()["id"] for _ in range(3))
    people = [{"reference": f"Patient/{one}"} for one in (source, third, target, source)]
    body = least("Observation", target, performer=people)
    made = service.ask("POST", f"{base}/Observation", json=body).json()
    order(service, base, source, target)
    moved = service.ask("GET", f"{base}/Observation/{made['id']}").json()
    assert moved["subject"]["reference"] == f"Patient/{target}"
    ids = [one["reference"].removeprefix("Patient/") for one in moved["performer"]]
    assert ids == [target, third, target, target]


def test_only_what_refers_to_the_source_changes(service: Running, base: str) -> None:
    """C-290: the target's own resources and everybody else's keep their version, and the update says which moved."""
    source, target, third = (service.create()["id"] for _ in range(3))
    made = {
        one: service.ask("POST", f"{base}/Condition", json=least("Condition", one, version_of(base))).json()["id"]
        for one in (source, target, third)
    }
    order(service, base, source, target)
    since = service.ask("GET", f"{base}/Patient/{source}").json()["meta"]["lastUpdated"].replace("+", "%2B")
    moved = service.ask("GET", f"{base}/Condition?patient={target}&_lastUpdated=ge{since}").json()
    assert [entry["resource"]["id"] for entry in moved["entry"]] == [made[source]]
    for one in (target, third):
        kept = service.ask("GET", f"{base}/Condition/{made[one]}").json()
        assert kept["meta"]["versionId"] == "1"


def test_a_target_that_names_the_source(service: Running, base: str) -> None:
    """Section 6A: a link that the target has already is not doubled; what else of it names the source names itself."""
    source = service.create()["id"]
    link = {"other": {"reference": f"Patient/{source}"}, "type": "replaces"}
    extension = {"url": URL, "valueReference": {"reference": f"Patient/{source}"}}
    target = service.create(base, link=[{**link, "type": "seealso"}, link], extension=[extension])["id"]
    assert order(service, base, source, target).status_code == 200
    merged = service.ask("GET", f"{base}/Patient/{target}").json()
    assert merged["link"] == [{**link, "type": "seealso"}, link]
    assert merged["extension"][0]["valueReference"]["reference"] == f"Patient/{target}"
    assert service.ask("PUT", f"{base}/Patient/{target}", json=merged).status_code == 200


def test_another_tenants_chart_stays(service: Running, base: str) -> None:
    """C-014: a merge moves nothing of a tenant that has patients of the same ids."""
    ids = [service.create()["id"] for _ in range(2)]
    for one in ids:
        body = patient(id=one, birthDate="1932-01-01")
        put = service.ask(
            "PUT", f"{base}/Patient/{one}", client="other", json=body, headers={"prefer": "create-always"}
        )
        assert put.status_code == 201
    theirs = service.ask("POST", f"{base}/Observation", client="other", json=least("Observation", ids[0])).json()
    assert order(service, base, *ids).status_code == 200
    assert service.ask("GET", f"{base}/Observation/{theirs['id']}", client="other").json() == theirs
    assert "link" not in service.ask("GET", f"{base}/Patient/{ids[0]}", client="other").json()


def test_a_refused_merge_leaves_every_byte(service: Running, base: str) -> None:
    """C-283, C-284, C-287: after a refusal each resource of both charts is the same, byte for byte."""
    source, target, gone = (service.create()["id"] for _ in range(3))
    order(service, base, gone, target)
    inactive = service.create(active=False)["id"]
    paths = [f"Patient/{one}" for one in (source, target, gone, inactive)]
    for type_name in sorted(LEAST):
        made = service.ask("POST", f"/fhir/R4/{type_name}", json=least(type_name, source))
        paths.append(f"{type_name}/{made.json()['id']}")
    before = [service.ask("GET", f"/fhir/R4/{path}").content for path in paths]
    for asked in ((source, source), (source, gone), (gone, source), (source, inactive), (source, "nobody")):
        for preview in (True, False):
            code = "not-found" if "nobody" in asked else "business-rule"
            issue(order(service, base, *asked, preview=preview), 422, code)
    assert order(service, base, source, target, preview=True).status_code == 200
    issue(
        service.ask("POST", f"{base}/Patient/$merge", client="read", json=merge_body(source, target)), 403, "forbidden"
    )
    assert [service.ask("GET", f"/fhir/R4/{path}").content for path in paths] == before


TABLES = ("resource", "string_index", "token_index", "date_index", "identifier_index", "reference_index")


def contents(store: Store) -> list[list[tuple[Any, ...]]]:
    """Return every row of the resources and their indexes."""
    return [sorted(store.reader().execute(f"SELECT * FROM {table}").fetchall()) for table in TABLES]  # noqa: S608


@pytest.fixture
def shelf(tmp_path: Path) -> Any:
    """A store of its own."""
    store = Store(tmp_path / "shelf.db", ["t"], lambda: datetime.now(UTC), INDEXERS)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("holder", "step"),
    [(Transaction, "rewrite"), (rest_merge, "redirected"), (Transaction, "update"), (Transaction, "retire")],
)
def test_a_merge_that_fails_midway_changes_nothing(
    shelf: Store, monkeypatch: pytest.MonkeyPatch, holder: Any, step: str
) -> None:
    """C-289: whichever step fails, and after it was done, every row stays as it was."""

    def fill(transaction: Transaction) -> MergePair:
        source = transaction.create("Patient", "a", patient(identifier=[{"system": "urn:x", "value": "1"}]))
        target = transaction.create("Patient", "b", patient())
        for type_name in LEAST:
            transaction.create(type_name, "x", least(type_name, "a"))
        return MergePair(source, target)

    pair = asyncio.run(shelf.write("t", fill))
    before = contents(shelf)
    real = getattr(holder, step)

    def fail(*arguments: Any) -> None:
        real(*arguments)
        raise RuntimeError

    monkeypatch.setattr(holder, step, fail)
    with pytest.raises(RuntimeError):
        asyncio.run(shelf.write("t", lambda transaction: merge(transaction, pair)))
    assert contents(shelf) == before
    monkeypatch.undo()
    asyncio.run(shelf.write("t", lambda transaction: merge(transaction, pair)))
    assert contents(shelf) != before
