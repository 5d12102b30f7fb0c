"""The smallest resource of each kept type, in both versions, in the chart of a patient where the type has one."""

from typing import Any

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT

CONCEPT = {"text": "x"}
# What a resource of each type needs at least, beside its patient: by R4's names.
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
    "RelatedPerson": {},
    "Account": {"status": "active"},
    "Binary": {"contentType": "text/plain", "data": "eA=="},
    "Provenance": {"recorded": "2025-07-01T10:00:00Z", "agent": [{"who": {"display": "x"}}]},
    "RequestGroup": {
        "status": "draft",
        "intent": "order",
        "author": {"display": "x"},
        "action": [{"title": "x"}],
    },
    "QuestionnaireResponse": {"status": "completed"},
    "Specimen": {},
    "Questionnaire": {"status": "active"},
    "ActivityDefinition": {"status": "active"},
    "Group": {"type": "person", "actual": True},
    "Subscription": {
        "status": "off",
        "reason": "x",
        "criteria": "Encounter",
        "channel": {"type": "rest-hook", "endpoint": "https://hooks.example/x"},
    },
}
# The types that need something else in STU3.
STU3: dict[str, dict[str, Any]] = {
    "Encounter": {"status": "finished"},
    "MedicationStatement": {"status": "active", "medicationCodeableConcept": CONCEPT, "taken": "y"},
    "AllergyIntolerance": {"verificationStatus": "confirmed"},
    "Immunization": {"status": "completed", "notGiven": False, "vaccineCode": CONCEPT, "primarySource": True},
    "Goal": {"status": "in-progress", "description": CONCEPT},
    "ServiceRequest": {"status": "active", "intent": "order", "code": CONCEPT},
    "DocumentReference": {
        "status": "current",
        "type": CONCEPT,
        "indexed": "2025-07-01T10:00:00Z",
        "content": [{"attachment": {"title": "x"}}],
    },
    "Binary": {"contentType": "text/plain", "content": "eA=="},
    "Provenance": {"recorded": "2025-07-01T10:00:00Z", "agent": [{"whoReference": {"display": "x"}}]},
}


def least(type_name: str, patient_id: str, version: FhirVersion = FhirVersion.R4, **more: Any) -> dict[str, Any]:
    """Return the smallest resource of a type (by R4's name) in a version; `more` are elements beside that."""
    elements = STU3.get(type_name, LEAST[type_name]) if version is FhirVersion.STU3 else LEAST[type_name]
    made = {"resourceType": name_in(version, type_name), **elements}
    reference = {"reference": f"Patient/{patient_id}"}
    element = "target" if type_name == "Provenance" else KEPT[type_name].patient
    if type_name == "Subscription":
        made["criteria"] = f"Encounter?patient={patient_id}"
    if element:
        made[element] = [reference] if _many(type_name, version) else reference
    return {**made, **more}


def version_of(base: str) -> FhirVersion:
    """Return the version that a base serves."""
    return FhirVersion.R4 if base == "/fhir/R4" else FhirVersion.STU3


def _many(type_name: str, version: FhirVersion) -> bool:
    """Say whether the reference to the patient stands in a list: in STU3 an Account has one subject."""
    return type_name == "Provenance" or (type_name == "Account" and version is FhirVersion.R4)
