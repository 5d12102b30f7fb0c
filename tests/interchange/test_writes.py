"""Create and update of types beside Patient: conditions, versions, ids, preferences, and what the service assigns."""

from itertools import count
from typing import Any

import pytest

from engine.fhir.schema import FhirVersion, definitions
from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Running, issue
from tests.interchange.least import LEAST, least, version_of

FRESH = count(1)
WITH_IDENTIFIER = sorted(LEAST.keys() - {"Binary", "Provenance", "Subscription"})


def numbered(type_name: str, patient_id: str, base: str) -> tuple[dict[str, Any], str]:
    """Return a resource with an identifier that nothing has, and a condition that names it."""
    value = f"w-{next(FRESH)}"
    identifier: Any = {"system": "urn:writes", "value": value}
    if definitions(FhirVersion.R4)[type_name]["identifier"].many:
        identifier = [identifier]
    return least(type_name, patient_id, version_of(base), identifier=identifier), f"identifier=urn:writes|{value}"


@pytest.mark.parametrize("type_name", WITH_IDENTIFIER)
def test_conditional_create(service: Running, base: str, type_name: str) -> None:
    """C-140, C-141, C-142 for every type with an identifier: 201, then 200 with what is there, and 412 for several."""
    name = name_in(version_of(base), type_name)
    body, condition = numbered(type_name, service.create()["id"], base)
    first = service.ask("POST", f"{base}/{name}", json=body, headers={"if-none-exist": condition})
    assert first.status_code == 201, first.text
    again = service.ask("POST", f"{base}/{name}", json=body, headers={"if-none-exist": f"?{condition}"})
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["location"] == first.headers["location"]
    assert service.ask("POST", f"{base}/{name}", json=body).status_code == 201
    several = service.ask("POST", f"{base}/{name}", json=body, headers={"if-none-exist": condition})
    issue(several, 412, "multiple-matches" if base == "/fhir/R4" else "duplicate")


@pytest.mark.parametrize("condition", ["", "identifier", "nonsense=1", "identifier:not=x", "identifier=a&identifier=b"])
def test_conditions_that_are_not_supported(service: Running, base: str, condition: str) -> None:
    """C-143 for other types: a condition that cannot be judged is 400, and nothing is kept."""
    patient_id = service.create()["id"]
    headers = {"if-none-exist": condition}
    answer = service.ask("POST", f"{base}/Observation", json=least("Observation", patient_id), headers=headers)
    issue(answer, 400, "invalid")
    assert service.ask("GET", f"{base}/Observation?patient={patient_id}").json()["total"] == 0


@pytest.mark.parametrize("type_name", sorted(LEAST))
def test_update_that_creates(service: Running, base: str, type_name: str) -> None:
    """C-151 to C-156, C-159 for every type: PUT creates, replaces wholly, and obeys If-Match and the id."""
    name, version = name_in(version_of(base), type_name), version_of(base)
    patient_id, path = service.create()["id"], f"{base}/{name}/put-{next(FRESH)}.A"
    body = least(type_name, patient_id, version, id=path.rpartition("/")[2], language="en")
    stale, category = (412, "conflict") if base == "/fhir/R4" else (409, "conflict")
    issue(service.ask("PUT", path, json=body, headers={"if-match": 'W/"1"'}), stale, category)
    made = service.ask("PUT", path, json=body)
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"{service.url}{path}/_history/1"
    without = {key: value for key, value in body.items() if key != "language"}
    changed = service.ask("PUT", path, json=without, headers={"if-match": 'W/"1"'})
    assert (changed.status_code, changed.headers["etag"]) == (200, 'W/"2"')
    assert "location" not in changed.headers
    assert "language" not in changed.json()
    issue(service.ask("PUT", path, json=body, headers={"if-match": 'W/"1"'}), stale, category)
    issue(service.ask("PUT", path, json=body, headers={"if-match": "2"}), 400, "invalid")
    for wrong in ({**body, "id": "another"}, {key: value for key, value in body.items() if key != "id"}):
        assert issue(service.ask("PUT", path, json=wrong), 400, "invalid")["location"] == [f"{name}.id"]
    assert service.ask("GET", path).content == changed.content


@pytest.mark.parametrize("resource_id", ["a" * 65, "under_score", "%20", "a%2Fb"])
def test_ids_that_no_resource_may_have(service: Running, base: str, resource_id: str) -> None:
    """Section 1: an id of a client's own is 1 to 64 letters, digits, hyphens and dots."""
    body = least("Observation", service.create()["id"], id="x")
    assert service.ask("PUT", f"{base}/Observation/{resource_id}", json=body).status_code in {400, 404}


def test_prefer(service: Running, base: str) -> None:
    """C-102 for other types, created and updated: nothing, an outcome, or the resource, as the client prefers."""
    patient_id = service.create()["id"]
    name = name_in(version_of(base), "ServiceRequest")
    body = least("ServiceRequest", patient_id, version_of(base))
    for prefer, holds in (("return=minimal", None), ("return=OperationOutcome", "OperationOutcome"), ("", name)):
        made = service.ask("POST", f"{base}/{name}", json=body, headers={"prefer": prefer})
        assert made.status_code == 201
        assert (made.json()["resourceType"] if made.content else None) == holds
        made_id = made.headers["location"].rsplit("/", 3)[1]
        put = service.ask("PUT", f"{base}/{name}/{made_id}", json={**body, "id": made_id}, headers={"prefer": prefer})
        assert (put.status_code, put.headers["etag"]) == (200, 'W/"2"')
        assert (put.json()["resourceType"] if put.content else None) == holds


def test_what_the_service_assigns(service: Running, base: str) -> None:
    """C-115 for other types: id, version and moment are the service's; tag, security and profile the client's."""
    tags = {
        "tag": [{"system": "urn:t", "code": "a", "display": "A"}],
        "security": [{"system": "urn:s", "code": "R"}],
        "profile": ["https://x.example/profile"],
    }
    meta = {"versionId": "9", "lastUpdated": "2001-01-01T00:00:00Z", **tags}
    body = least("Observation", service.create()["id"], id="mine", meta=meta)
    made = service.ask("POST", f"{base}/Observation", json=body).json()
    assert made["id"] != "mine"
    assert made["meta"]["versionId"] == "1"
    assert not made["meta"]["lastUpdated"].startswith("2001")
    assert {name: made["meta"][name] for name in tags} == tags
    put = service.ask("PUT", f"{base}/Observation/{made['id']}", json={**made, "meta": meta}).json()
    assert put["meta"]["versionId"] == "2"
    assert put["meta"]["lastUpdated"] > made["meta"]["lastUpdated"]
    assert {name: put["meta"][name] for name in tags} == tags


def test_contained_resources(service: Running, base: str) -> None:
    """Section 18: what a resource contains is kept whole, and is held to its own type."""
    inside = {"resourceType": "Organization", "id": "o", "name": "Ward", "telecom": [{"system": "phone", "value": "1"}]}
    patient_id = service.create()["id"]
    body = least("Observation", patient_id, contained=[inside], performer=[{"reference": "#o"}])
    made = service.ask("POST", f"{base}/Observation", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["contained"] == [inside]
    assert made.json()["performer"] == [{"reference": "#o"}]
    wrong = {**body, "contained": [{**inside, "telecom": [{"system": "smoke signals"}]}]}
    found = issue(service.ask("POST", f"{base}/Observation", json=wrong), 422, "invalid")
    assert found["location"] == ["Observation.contained[0].telecom[0].system"]
    listed = service.ask("GET", f"{base}/Organization?name=Ward").json()
    assert [entry for entry in listed["entry"] if entry["resource"]["id"] == "o"] == []


@pytest.mark.parametrize("type_name", sorted(KEPT))
def test_methods_that_are_not_there(service: Running, base: str, type_name: str) -> None:
    """C-009 for every type: a method that is not there is 405."""
    name = name_in(version_of(base), type_name)
    answer = service.ask("POST", f"{base}/{name}/x", json={})
    issue(answer, 405, "not-supported")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
