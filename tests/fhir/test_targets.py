"""The types that a reference may name: the table is what HL7's definitions say, and is looked up by path."""

import pytest

from engine.fhir.r4 import target_types
from engine.fhir.schema import FhirVersion
from tests.fhir.targets import RULES, TABLE, rules, table

R4, STU3 = FhirVersion.R4, FhirVersion.STU3


def test_the_table_is_what_the_definitions_say() -> None:
    """The committed table is what fhir.resources gives; after a change run `python -m tests.fhir.targets`."""
    assert TABLE.read_text(encoding="utf-8") == table()


@pytest.mark.parametrize(
    ("version", "path", "allowed"),
    [
        (R4, "Encounter.participant.individual", {"Practitioner", "PractitionerRole", "RelatedPerson"}),
        (STU3, "Encounter.participant.individual", {"Practitioner", "RelatedPerson"}),
        (R4, "Observation.subject", {"Patient", "Group", "Device", "Location"}),
        (R4, "CarePlan.activity.detail.location", {"Location"}),
        (R4, "Patient.identifier.assigner", {"Organization"}),
        (R4, "Observation.note.authorReference", {"Patient", "Practitioner", "RelatedPerson", "Organization"}),
        (STU3, "DiagnosticReport.basedOn", {"CarePlan", "ImmunizationRecommendation", "MedicationRequest"}),
        (R4, "Patient.extension.extension.valueIdentifier.assigner", {"Organization"}),
        (R4, "Patient._birthDate.extension.valueIdentifier.assigner", {"Organization"}),
        (STU3, "Patient.name._given.extension.valueIdentifier.assigner", {"Organization"}),
        (R4, "Patient.extension.valueReference", set()),
        (R4, "Provenance.target", set()),
        (R4, "Patient.contained.subject", set()),
        (R4, "Nonsense.subject", set()),
        (R4, "Patient", set()),
    ],
)
def test_looked_up_by_path(version: FhirVersion, path: str, allowed: set[str]) -> None:
    """Through backbone elements, data types and extensions; nothing where any type will do, or none is known."""
    found = target_types(version, path)
    assert allowed <= found
    assert bool(allowed) == bool(found)
    assert "Account" not in found


def test_the_rules_are_what_the_definitions_say() -> None:
    """What R4 requires and binds beyond its schema is what fhir.resources gives."""
    assert RULES.read_text(encoding="utf-8") == rules()
