"""Resources of every kept type: create, read, update, search; their charts and their roles (points C, J)."""

from typing import Any

import pytest

from engine.interchange.resource.catalogue import CHART, KEPT
from tests.interchange.kit import Running, issue

CONCEPT = {"text": "x"}
# What a resource of each type needs at least, beside its patient.
LEAST: dict[str, dict[str, Any]] = {
    "Encounter": {"status": "finished", "class": {"code": "IMP"}},
    "Condition": {},
    "Observation": {"status": "final", "code": CONCEPT},
    "MedicationRequest": {"status": "active", "intent": "order", "medicationCodeableConcept": CONCEPT},
    "MedicationStatement": {"status": "active", "medicationCodeableConcept": CONCEPT},
    "AllergyIntolerance": {},
    "DiagnosticReport": {"status": "final", "code": CONCEPT},
    "Immunization": {"status": "completed", "vaccineCode": CONCEPT, "occurrenceDateTime": "2025-07-01"},
    "Procedure": {"status": "completed"},
    "CarePlan": {"status": "active", "intent": "plan"},
    "Goal": {"lifecycleStatus": "active", "description": CONCEPT},
    "ServiceRequest": {"status": "active", "intent": "order"},
    "Coverage": {"status": "active", "payor": [{"display": "Payer"}]},
    "DocumentReference": {"status": "current", "content": [{"attachment": {"title": "x"}}]},
    "FamilyMemberHistory": {"status": "completed", "relationship": CONCEPT},
    "Practitioner": {},
    "Organization": {"name": "Riverbend"},
    "Location": {"name": "4 East"},
    "PractitionerRole": {},
    "RelatedPerson": {"patient": {}},
    "Account": {"status": "active"},
    "Provenance": {"recorded": "2025-07-01T10:00:00Z", "agent": [{"who": {"display": "x"}}], "target": [{}]},
}


def least(type_name: str, patient_id: str) -> dict[str, Any]:
    """Return the smallest resource of a type, in the chart of a patient where it has one."""
    made = {"resourceType": type_name, **LEAST[type_name]}
    reference = {"reference": f"Patient/{patient_id}"}
    if KEPT[type_name].patient:
        element = KEPT[type_name].patient
        made[element] = [reference] if type_name == "Account" else reference
    if type_name == "Provenance":
        made["target"] = [reference]
    return made


@pytest.mark.parametrize("type_name", sorted(LEAST))
def test_create_read_update_and_search(service: Running, type_name: str) -> None:
    """C-071, C-082: every kept type is created, read, updated and found again."""
    patient_id = service.create()["id"]
    created = service.ask("POST", f"/fhir/R4/{type_name}", json=least(type_name, patient_id))
    assert created.status_code == 201, created.text
    kept = created.json()
    assert created.headers["location"] == f"{service.url}/fhir/R4/{type_name}/{kept['id']}"
    assert service.ask("GET", f"/fhir/R4/{type_name}/{kept['id']}").json() == kept
    updated = service.ask("PUT", f"/fhir/R4/{type_name}/{kept['id']}", json=kept, headers={"if-match": 'W/"1"'})
    assert updated.json()["meta"]["versionId"] == "2"
    scope = f"patient={patient_id}&" if type_name in {one.name for one in CHART} else ""
    found = service.ask("GET", f"/fhir/R4/{type_name}?{scope}_id={kept['id']}").json()
    assert [entry["resource"]["id"] for entry in found["entry"]] == [kept["id"]]


@pytest.mark.parametrize("type_name", [one.name for one in CHART])
def test_a_chart_needs_its_patient(service: Running, type_name: str) -> None:
    """Section 18: a clinical resource without a patient is refused (400), and one of an unknown patient (422)."""
    made = least(type_name, "nobody")
    issue(service.ask("POST", f"/fhir/R4/{type_name}", json=made), 422, "not-found")
    del made[KEPT[type_name].patient]
    issue(service.ask("POST", f"/fhir/R4/{type_name}", json=made), 400, "required")
