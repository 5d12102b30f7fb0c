"""Resources of every kept type: create, read, update and search; what makes a body malformed, incomplete or wrong."""

from typing import Any

import pytest

from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import CHART, KEPT
from tests.interchange.kit import Running, issue
from tests.interchange.least import CONCEPT, LEAST, least, version_of

CHARTED = [one.name for one in CHART]


def post(service: Running, base: str, resource: dict[str, Any], **more: Any) -> Any:
    """Create a resource at its type's address."""
    return service.ask("POST", f"{base}/{resource['resourceType']}", json=resource, **more)


@pytest.mark.parametrize("type_name", sorted(LEAST))
def test_create_read_update_and_search(service: Running, base: str, type_name: str) -> None:
    """C-071, C-082: every kept type is created, read, updated and found again; its address is the called base's."""
    patient_id = service.create()["id"]
    name = name_in(version_of(base), type_name)
    created = post(service, base, least(type_name, patient_id, version_of(base)))
    assert created.status_code == 201, created.text
    kept = created.json()
    assert kept["resourceType"] == name
    assert created.headers["location"] == f"{service.url}{base}/{name}/{kept['id']}/_history/1"
    assert created.headers["etag"] == 'W/"1"'
    assert service.ask("GET", f"{base}/{name}/{kept['id']}").json() == kept
    updated = service.ask("PUT", f"{base}/{name}/{kept['id']}", json=kept, headers={"if-match": 'W/"1"'})
    assert updated.status_code == 200, updated.text
    assert updated.json()["meta"]["versionId"] == "2"
    scope = f"patient={patient_id}&" if type_name in CHARTED else ""
    found = service.ask("GET", f"{base}/{name}?{scope}_id={kept['id']}").json()
    assert [entry["fullUrl"] for entry in found["entry"]] == [f"{service.url}{base}/{name}/{kept['id']}"]


@pytest.mark.parametrize("type_name", CHARTED)
def test_a_chart_needs_its_patient(service: Running, base: str, type_name: str) -> None:
    """Section 18: a clinical resource without a patient is 400; one of an unknown patient, or of no patient, 422."""
    name, element = name_in(version_of(base), type_name), KEPT[type_name].patient
    made = least(type_name, "nobody", version_of(base))
    found = issue(post(service, base, made), 422, "not-found")
    assert found["location"] == [f"{name}.{element}.reference"]
    for nothing in ({}, {element: {"display": "A patient"}}):
        without = {key: value for key, value in made.items() if key != element}
        found = issue(post(service, base, {**without, **nothing}), 400, "required")
        assert f"{name}.{element}" in found["location"]
    service.ask("PUT", "/fhir/R4/Location/ward", json={"resourceType": "Location", "id": "ward", "name": "4 East"})
    found = issue(post(service, base, {**made, element: {"reference": "Location/ward"}}), 422, "invalid")
    assert found["location"] == [f"{name}.{element}.reference"]


REQUIRED = {
    "Encounter": ("status", "class"),
    "Observation": ("status", "code"),
    "MedicationRequest": ("status", "intent", "medicationCodeableConcept"),
    "MedicationStatement": ("status", "medicationCodeableConcept"),
    "DiagnosticReport": ("status", "code"),
    "Immunization": ("status", "vaccineCode", "occurrenceDateTime"),
    "Procedure": ("status",),
    "CarePlan": ("status", "intent"),
    "Goal": ("lifecycleStatus", "description"),
    "ServiceRequest": ("status", "intent"),
    "Coverage": ("status", "payor"),
    "DocumentReference": ("status", "content"),
    "FamilyMemberHistory": ("status", "relationship"),
    "Account": ("status",),
    "RelatedPerson": ("patient",),
    "Provenance": ("recorded", "agent", "target"),
}


@pytest.mark.parametrize(
    ("type_name", "element"), [(name, element) for name, elements in REQUIRED.items() for element in elements]
)
def test_required_elements(service: Running, type_name: str, element: str) -> None:
    """Section 18, C-386: a required element that is missing, a primitive too, is 400 required at its path."""
    body = least(type_name, service.create()["id"])
    del body[element]
    found = issue(post(service, "/fhir/R4", body), 400, "required")
    stem = element.removesuffix("CodeableConcept").removesuffix("DateTime")
    assert found["location"][0].startswith(f"{type_name}.{stem}")


WRONG = [
    pytest.param("Observation", {"status": "finished"}, "Observation.status", id="code"),
    pytest.param("Observation", {"effectiveDateTime": "2025-02-30"}, "Observation.effectiveDateTime", id="no such day"),
    pytest.param("Encounter", {"period": {"start": "yesterday"}}, "Encounter.period.start", id="no date"),
    pytest.param("Goal", {"lifecycleStatus": "in-progress"}, "Goal.lifecycleStatus", id="code of STU3"),
    pytest.param("MedicationRequest", {"status": "draft"}, "MedicationRequest.status", id="C-386 draft"),
    pytest.param("MedicationRequest", {"status": "cancelled"}, "MedicationRequest.status", id="C-386 cancelled"),
    pytest.param("MedicationRequest", {"status": "x"}, "MedicationRequest.status", id="C-386 no code"),
    pytest.param("MedicationRequest", {"intent": "x"}, "MedicationRequest.intent", id="code of an open list"),
    pytest.param("Procedure", {"status": "aborted"}, "Procedure.status", id="STU3's code of an open list"),
    pytest.param("ServiceRequest", {"priority": "now"}, "ServiceRequest.priority", id="code of an optional element"),
]


@pytest.mark.parametrize(("type_name", "elements", "location"), WRONG)
def test_wrong_values(service: Running, type_name: str, elements: dict[str, Any], location: str) -> None:
    """Section 18, C-386: the right shape with a wrong value is 422 invalid at its path."""
    body = least(type_name, service.create()["id"], **elements)
    found = issue(post(service, "/fhir/R4", body), 422, "invalid")
    assert found["location"] == [location]


def test_statuses_of_a_medication_request(service: Running, base: str) -> None:
    """C-385, C-386: active and completed are kept on both bases; draft is 422; no status is 400."""
    body = least("MedicationRequest", service.create()["id"])
    for status, answer in (("active", 201), ("completed", 201), ("draft", 422), (None, 400)):
        elements = {"status": status} if status else {}
        tried = {**{name: value for name, value in body.items() if name != "status"}, **elements}
        assert post(service, base, tried).status_code == answer


def test_a_medication_request_is_stopped(service: Running, base: str) -> None:
    """C-386 is of new ones: any status of FHIR's may follow by an update, which creates none of them."""
    body = least("MedicationRequest", service.create()["id"])
    made = post(service, base, body).json()
    path = f"{base}/MedicationRequest/{made['id']}"
    stopped = service.ask("PUT", path, json={**made, "status": "stopped"})
    assert (stopped.status_code, stopped.json()["status"]) == (200, "stopped")
    issue(service.ask("PUT", path, json={**made, "status": "given up"}), 422, "invalid")
    new = {**made, "id": f"new-{made['id']}", "status": "stopped"}
    issue(service.ask("PUT", f"{base}/MedicationRequest/{new['id']}", json=new), 422, "invalid")
    issue(service.ask("GET", f"{base}/MedicationRequest/{new['id']}"), 404, "not-found")


MISSHAPEN = [
    pytest.param({"code": "text"}, "Observation.code", id="string for an object"),
    pytest.param({"category": CONCEPT}, "Observation.category", id="object for a list"),
    pytest.param({"shoeSize": 44}, "Observation", id="unknown element"),
    pytest.param({"category": []}, "Observation.category", id="empty list"),
    pytest.param({"valueString": "a", "valueInteger": 1}, "Observation", id="two choices"),
    pytest.param({"resourceType": "Condition"}, "Observation.resourceType", id="another type"),
]


@pytest.mark.parametrize(("elements", "location"), MISSHAPEN)
def test_misshapen_bodies(service: Running, base: str, elements: dict[str, Any], location: str) -> None:
    """C-108 for other types: what is not shaped like the type is 400 structure, named where it stands."""
    body = {**least("Observation", service.create()["id"]), **elements}
    answer = service.ask("POST", f"{base}/Observation", json=body)
    assert issue(answer, 400, "structure")["location"][0].startswith(location)


@pytest.mark.parametrize("body", [b"[]", b"1", b"null", b'"Observation"', b"{", b""])
def test_bodies_that_are_no_resources(service: Running, base: str, body: bytes) -> None:
    """C-108 for other types: JSON that is no object, or no JSON, is 400 structure."""
    headers = {"content-type": "application/fhir+json"}
    issue(service.ask("POST", f"{base}/Observation", content=body, headers=headers), 400, "structure")
