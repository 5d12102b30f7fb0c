"""Required elements that HL7's JSON Schemas do not ask for: primitives, and choices (`medication[x]`) of min 1.

Source: the StructureDefinitions of FHIR R4 (4.0.1) and STU3 (3.0.1), for the types that are kept here; the names on
the left are those of the schemas' definitions. An extension on the element (`_status`) does in its place.
"""

from collections.abc import Mapping
from typing import Final

_BOTH: Final[Mapping[str, tuple[str, ...]]] = {
    "ActivityDefinition": ("status",),
    "ActivityDefinition_Participant": ("type",),
    "Annotation": ("text",),
    "Binary": ("contentType",),
    "CarePlan": ("status", "intent"),
    "CarePlan_Detail": ("status",),
    "Contributor": ("type", "name"),
    "DataRequirement": ("type",),
    "DiagnosticReport": ("status",),
    "DocumentReference_RelatesTo": ("code",),
    "Encounter": ("status",),
    "Encounter_StatusHistory": ("status",),
    "Extension": ("url",),
    "FamilyMemberHistory": ("status",),
    "Location_Position": ("longitude", "latitude"),
    "Narrative": ("status",),
    "Observation": ("status",),
    "ParameterDefinition": ("use", "type"),
    "Patient_Link": ("type",),
    "PractitionerRole_NotAvailable": ("description",),
    "Procedure": ("status",),
    "Provenance": ("recorded",),
    "Provenance_Entity": ("role",),
    "Questionnaire": ("status",),
    "QuestionnaireResponse": ("status",),
    "QuestionnaireResponse_Item": ("linkId",),
    "Questionnaire_EnableWhen": ("question",),
    "Questionnaire_Item": ("linkId", "type"),
    "RelatedArtifact": ("type",),
    "RequestGroup": ("status", "intent"),
    "RequestGroup_Condition": ("kind",),
    "RequestGroup_RelatedAction": ("actionId", "relationship"),
    "Signature": ("when",),
    "TriggerDefinition": ("type",),
}
R4_PRIMITIVES: Final[Mapping[str, tuple[str, ...]]] = {
    **_BOTH,
    "Account": ("status",),
    "ActivityDefinition_DynamicValue": ("path",),
    "Coverage": ("status",),
    "Coverage_Class": ("value",),
    "DataRequirement_Sort": ("path", "direction"),
    "DocumentReference": ("status",),
    "Expression": ("language",),
    "Goal": ("lifecycleStatus",),
    "Immunization": ("status",),
    "MedicationRequest": ("status", "intent"),
    "MedicationStatement": ("status",),
    "Questionnaire_EnableWhen": ("question", "operator"),
    "SampledData": ("period", "dimensions"),
    "ServiceRequest": ("status", "intent"),
}
STU3_PRIMITIVES: Final[Mapping[str, tuple[str, ...]]] = {
    **_BOTH,
    "AllergyIntolerance": ("verificationStatus",),
    "Binary": ("contentType", "content"),
    "DataRequirement_CodeFilter": ("path",),
    "DataRequirement_DateFilter": ("path",),
    "DocumentReference": ("status", "indexed"),
    "Goal": ("status",),
    "Immunization": ("status", "notGiven", "primarySource"),
    "MedicationRequest": ("intent",),
    "MedicationRequest_Substitution": ("allowed",),
    "MedicationStatement": ("status", "taken"),
    "ProcedureRequest": ("status", "intent"),
    "SampledData": ("period", "dimensions", "data"),
}
R4_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "Coverage_CostToBeneficiary": ("value",),
    "Immunization": ("occurrence",),
    "Immunization_ProtocolApplied": ("doseNumber",),
    "MedicationRequest": ("medication",),
    "MedicationRequest_Substitution": ("allowed",),
    "MedicationStatement": ("medication",),
    "Questionnaire_AnswerOption": ("value",),
    "Questionnaire_EnableWhen": ("answer",),
    "Questionnaire_Initial": ("value",),
    "UsageContext": ("value",),
}
STU3_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "MedicationRequest": ("medication",),
    "MedicationStatement": ("medication",),
    "Provenance_Agent": ("who",),
    "Provenance_Entity": ("what",),
    "Questionnaire_Option": ("value",),
    "Signature": ("who",),
    "UsageContext": ("value",),
}
