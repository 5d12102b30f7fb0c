"""Conditional update and delete: by what a resource is known for, not by its id."""

from itertools import count
from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import MRN, Running, issue, merge_body, patient, record_number
from tests.interchange.least import least, version_of
from tests.interchange.parallel import at_once, statuses

FRESH = count(1)
SEVERAL = {"/fhir/R4": "multiple-matches", "/fhir": "duplicate"}


def someone(**more: Any) -> tuple[str, dict[str, Any]]:
    """Return a number that nobody has, as a query, and a patient of that number."""
    value = f"conditional-{next(FRESH)}"
    return f"identifier={MRN}%7C{value}", patient(
        identifier=[record_number(value)], name=[{"family": f"Conditional{next(FRESH):04}x", "given": ["A"]}], **more
    )


def test_none_one_and_several(service: Running, base: str) -> None:
    """N-140: the first creates, the second updates, and where two match nothing is written."""
    query, body = someone()
    first = service.ask("PUT", f"{base}/Patient?{query}", json=body)
    assert (first.status_code, first.headers["etag"]) == (201, 'W/"1"'), first.text
    path = f"{base}/Patient/{first.json()['id']}"
    assert first.headers["location"] == f"{service.url}{path}/_history/1"
    second = service.ask("PUT", f"{base}/Patient?{query}", json={**body, "birthDate": "1990"})
    assert (second.status_code, second.headers["etag"]) == (200, 'W/"2"')
    assert second.headers["content-location"] == f"{service.url}{path}/_history/2"
    assert service.ask("GET", path).json()["birthDate"] == "1990"
    family = body["name"][0]["family"]
    service.create(base, name=body["name"])
    told = issue(service.ask("PUT", f"{base}/Patient?family={family}", json=body), 412, SEVERAL[base])
    assert told["location"] == ["http.query"]
    assert service.ask("GET", path).headers["etag"] == 'W/"2"'


@pytest.mark.parametrize("type_name", sorted(KEPT.keys() - {"Patient"}))
def test_every_type_by_id_and_tag(service: Running, base: str, type_name: str) -> None:
    """N-140, N-142: every type, by a parameter that all have: made, replaced, deleted."""
    name, owner, tag = name_in(version_of(base), type_name), service.create(base)["id"], f"c{next(FRESH)}"
    body = least(type_name, owner, version_of(base), meta={"tag": [{"system": "urn:c", "code": tag}]})
    path = f"{base}/{name}?_tag=urn:c%7C{tag}"
    answers = [service.ask("PUT", path, json=body) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200], answers[0].text
    assert answers[0].json()["id"] == answers[1].json()["id"]
    for _ in range(2):
        assert service.ask("DELETE", path).status_code == 204
    found = service.ask("GET", f"{base}/{name}/{answers[0].json()['id']}")
    assert found.status_code == 410


def test_ids_in_bodies(service: Running, base: str) -> None:
    """N-140: a body's id is that of the match, or free for what is created."""
    query, body = someone()
    wanted = f"wanted-{next(FRESH)}"
    made = service.ask("PUT", f"{base}/Patient?{query}", json={**body, "id": wanted})
    assert (made.status_code, made.json()["id"]) == (201, wanted)
    assert service.ask("PUT", f"{base}/Patient?{query}", json={**body, "id": wanted}).status_code == 200
    told = issue(service.ask("PUT", f"{base}/Patient?{query}", json={**body, "id": "another"}), 400, "invalid")
    assert told["location"] == ["Patient.id"]
    other, unknown = someone()
    issue(service.ask("PUT", f"{base}/Patient?{other}", json={**unknown, "id": wanted}), 409, "conflict")
    issue(service.ask("PUT", f"{base}/Patient?{other}", json={**unknown, "id": "no id!"}), 400, "invalid")
    issue(service.ask("PUT", f"{base}/Patient?{other}", json={**unknown, "id": 7}), 400, "structure")
    issue(service.ask("PUT", f"{base}/Patient?{other}", json=[]), 400, "structure")


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "required"),
        ("?_format=json", "required"),
        ("?foo=1", "invalid"),
        ("?_lastUpdated=gt2020", "invalid"),
        ("?family=a&family=b", "invalid"),
        ("?family:not=a", "invalid"),
        ("?identifier=", "invalid"),
        ("?_count=1", "invalid"),
    ],
)
def test_conditions_that_are_none(service: Running, base: str, method: str, query: str, code: str) -> None:
    """N-141: without a criterion, and with one that is not known, nothing is written: never all, never another."""
    more = {"json": patient()} if method == "PUT" else {}
    issue(service.ask(method, f"{base}/Patient{query}", **more), 400, code)


def test_if_match(service: Running, base: str) -> None:
    """N-140: If-Match is asked of the match; where there is none, it matches nothing."""
    query, body = someone()
    stale = (412, "conflict") if base == "/fhir/R4" else (409, "conflict")
    issue(service.ask("PUT", f"{base}/Patient?{query}", json=body, headers={"if-match": "*"}), *stale)
    assert service.ask("PUT", f"{base}/Patient?{query}", json=body).status_code == 201
    for method, more in (("PUT", {"json": body}), ("DELETE", {})):
        issue(service.ask(method, f"{base}/Patient?{query}", headers={"if-match": 'W/"7"'}, **more), *stale)
    assert service.ask("DELETE", f"{base}/Patient?{query}", headers={"if-match": '"1"'}).status_code == 204


def test_deletes(service: Running, base: str) -> None:
    """N-142: one match is deleted as by its id; several stay; a chart goes along by `_cascade`."""
    query, body = someone()
    made = service.ask("PUT", f"{base}/Patient?{query}", json=body).json()["id"]
    service.create(base, name=body["name"])
    family = body["name"][0]["family"]
    issue(service.ask("DELETE", f"{base}/Patient?family={family}"), 412, SEVERAL[base])
    assert service.ask("GET", f"{base}/Patient?family={family}").json()["total"] == 2
    condition = service.ask("POST", f"{base}/Condition", json=least("Condition", made, version_of(base))).json()["id"]
    issue(service.ask("DELETE", f"{base}/Patient?{query}"), 409, "conflict")
    issue(service.ask("DELETE", f"{base}/Condition?_id={condition}&_cascade=delete"), 400, "invalid")
    assert service.ask("DELETE", f"{base}/Patient?{query}&_cascade=delete").status_code == 204
    assert service.ask("GET", f"{base}/Condition/{condition}").status_code == 410
    assert service.ask("DELETE", f"{base}/Patient?{query}").status_code == 204


def test_a_merged_number_names_the_survivor(service: Running, base: str) -> None:
    """N-141: the number of a merged-away record is the survivor's."""
    (old, source), (new, target) = someone(), someone()
    ids = [
        service.ask("PUT", f"{base}/Patient?{q}", json=body).json()["id"] for q, body in ((old, source), (new, target))
    ]
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(*ids)).status_code == 200
    answer = service.ask("PUT", f"{base}/Patient?{old}", json=target)
    assert (answer.status_code, answer.json()["id"]) == (200, ids[1])


@pytest.mark.parametrize("client", ["nurse", "administrative", "read"])
def test_roles(service: Running, base: str, client: str) -> None:
    """N-141: what a role may not create it does not create by a condition."""
    owner, tag = service.create(base)["id"], f"r{next(FRESH)}"
    body = least("MedicationRequest", owner, version_of(base), meta={"tag": [{"system": "urn:c", "code": tag}]})
    path = f"{base}/MedicationRequest?_tag=urn:c%7C{tag}"
    assert service.ask("PUT", path, json=body, client=client).status_code == 403
    assert service.ask("DELETE", path, client=client).status_code == 403
    assert service.ask("PUT", path, json=body).status_code == 201


def test_updates_at_once(service: Running, base: str) -> None:
    """N-143: of 16 at once one creates and 15 update, whoever comes first."""
    for _ in range(10):
        query, body = someone()
        answers = at_once(service, [("PUT", f"{base}/Patient?{query}", body, {})] * 16)
        assert statuses(answers) == [200] * 15 + [201]
        assert len({answer.json()["id"] for answer in answers}) == 1
        assert {answer.headers["etag"] for answer in answers} == {f'W/"{number}"' for number in range(1, 17)}


def test_updates_and_deletes_at_once(service: Running, base: str) -> None:
    """N-143: whatever the order, at most one lives afterwards, and every live one was told of."""
    for _ in range(10):
        query, body = someone()
        path = f"{base}/Patient?{query}"
        answers = at_once(service, [("PUT", path, body, {})] * 6 + [("DELETE", path, None, {})] * 6)
        assert {answer.status_code for answer in answers} <= {200, 201, 204}
        found = service.ask("GET", path).json()
        assert found["total"] <= 1
        told = {answer.json()["id"] for answer in answers if answer.content}
        assert {entry["resource"]["id"] for entry in found["entry"]} <= told
