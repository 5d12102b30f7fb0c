"""Required elements that HL7's JSON Schemas do not ask for: primitives, and choices (`medication[x]`) of min 1.

Source: the StructureDefinitions of FHIR R4 (4.0.1) and STU3 (3.0.1), for the types that are kept here; the names on
the left are those of the schemas' definitions. An extension on the element (`_status`) does in its place.
"""

from collections.abc import Mapping
from typing import Final

R4_PRIMITIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "Account": ("status",),
    "CarePlan": ("status", "intent"),
    "CarePlan_Detail": ("status",),
    "Coverage": ("status",),
    "Coverage_Class": ("value",),
    "DiagnosticReport": ("status",),
    "DocumentReference": ("status",),
    "DocumentReference_RelatesTo": ("code",),
    "Encounter": ("status",),
    "Encounter_StatusHistory": ("status",),
    "FamilyMemberHistory": ("status",),
    "Goal": ("lifecycleStatus",),
    "Immunization": ("status",),
    "Location_Position": ("longitude", "latitude"),
    "MedicationRequest": ("status", "intent"),
    "MedicationStatement": ("status",),
    "Observation": ("status",),
    "Patient_Link": ("type",),
    "PractitionerRole_NotAvailable": ("description",),
    "Procedure": ("status",),
    "Provenance": ("recorded",),
    "Provenance_Entity": ("role",),
    "ServiceRequest": ("status", "intent"),
    "Signature": ("when",),
}
STU3_PRIMITIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "AllergyIntolerance": ("verificationStatus",),
    "CarePlan": ("status", "intent"),
    "CarePlan_Detail": ("status",),
    "DiagnosticReport": ("status",),
    "DocumentReference": ("status", "indexed"),
    "DocumentReference_RelatesTo": ("code",),
    "Encounter": ("status",),
    "Encounter_StatusHistory": ("status",),
    "FamilyMemberHistory": ("status",),
    "Goal": ("status",),
    "Immunization": ("status", "notGiven", "primarySource"),
    "Location_Position": ("longitude", "latitude"),
    "MedicationRequest": ("intent",),
    "MedicationRequest_Substitution": ("allowed",),
    "MedicationStatement": ("status", "taken"),
    "Observation": ("status",),
    "Patient_Link": ("type",),
    "PractitionerRole_NotAvailable": ("description",),
    "Procedure": ("status",),
    "ProcedureRequest": ("status", "intent"),
    "Provenance": ("recorded",),
    "Provenance_Entity": ("role",),
    "Signature": ("when",),
}
R4_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "Immunization": ("occurrence",),
    "MedicationRequest": ("medication",),
    "MedicationStatement": ("medication",),
}
STU3_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "MedicationRequest": ("medication",),
    "MedicationStatement": ("medication",),
}
