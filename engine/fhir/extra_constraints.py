"""Constraints beyond HL7's JSON Schemas: bound codes, required elements, one choice, real dates, no empties.

Source: the required bindings of FHIR R4 (4.0.1) and STU3 (3.0.1), for the types that are kept here; the names on the
left are those of the schemas' definitions. Elements whose codes the schemas list are not repeated here.

Source: the StructureDefinitions of FHIR R4 (4.0.1) and STU3 (3.0.1), for the types that are kept here; the names on
the left are those of the schemas' definitions. An extension on the element (`_status`) satisfies the rule.
"""

from collections.abc import Collection, Mapping
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject

# Defects reported of each kind of check.
MOST: Final = 100


class DefectKind(StrEnum):
    """What is wrong with an element: its shape, or the value in the right shape."""

    STRUCTURE = "structure"
    REQUIRED = "required"
    VALUE = "value"


class Defect(NamedTuple):
    """One defect of a resource; `path` is FHIRPath (`Patient.name[0].family`)."""

    path: str
    kind: DefectKind
    text: str


Bindings = Mapping[str, Mapping[str, frozenset[str]]]


def _codes(codes: str) -> frozenset[str]:
    return frozenset(codes.split())


INTENT: Final = _codes("proposal plan order original-order reflex-order filler-order instance-order option")
PRIORITY: Final = _codes("routine urgent asap stat")
REQUEST: Final = _codes("draft active on-hold revoked completed entered-in-error unknown")
REQUEST_STU3: Final = _codes("draft active suspended cancelled completed entered-in-error unknown")
COVERAGE: Final = _codes("active cancelled draft entered-in-error")
DOCUMENT: Final = _codes("preliminary final amended entered-in-error")
IMMUNIZATION: Final = _codes("completed entered-in-error not-done")
REQUESTS: Final = _codes(
    "Appointment AppointmentResponse CarePlan Claim CommunicationRequest Contract DeviceRequest EnrollmentRequest "
    "ImmunizationRecommendation MedicationRequest NutritionOrder ServiceRequest SupplyRequest Task VisionPrescription"
)
ACTIVITY: Final = _codes("patient practitioner related-person")
ACTION: Final[Mapping[str, frozenset[str]]] = {
    "groupingBehavior": _codes("visual-group logical-group sentence-group"),
    "selectionBehavior": _codes("any all all-or-none exactly-one at-most-one one-or-more"),
    "requiredBehavior": _codes("must could must-unless-documented"),
    "precheckBehavior": _codes("yes no"),
    "cardinalityBehavior": _codes("single multiple"),
}
RELATED_ACTION: Final = _codes(
    "before-start before before-end concurrent-with-start concurrent concurrent-with-end after-start after after-end"
)
CONDITION: Final = _codes("applicability start stop")
PROCEDURE: Final = _codes("preparation in-progress not-done on-hold stopped completed entered-in-error unknown")

R4_CODES: Final[Bindings] = {
    "ActivityDefinition": {"kind": REQUESTS, "intent": INTENT | {"directive"}, "priority": PRIORITY},
    "ActivityDefinition_Participant": {"type": ACTIVITY | {"device"}},
    "CarePlan": {"status": REQUEST, "intent": _codes("proposal plan order option")},
    "Coverage": {"status": COVERAGE},
    "DocumentReference": {"docStatus": DOCUMENT},
    "Immunization": {"status": IMMUNIZATION},
    "MedicationRequest": {
        "status": _codes("active on-hold cancelled completed entered-in-error stopped draft unknown"),
        "intent": INTENT,
        "priority": PRIORITY,
    },
    "MedicationStatement": {
        "status": _codes("active completed entered-in-error intended stopped on-hold unknown not-taken")
    },
    "Procedure": {"status": PROCEDURE},
    "RequestGroup": {"status": REQUEST, "intent": INTENT | {"directive"}, "priority": PRIORITY},
    "RequestGroup_Action": {"priority": PRIORITY, **ACTION},
    "RequestGroup_Condition": {"kind": CONDITION},
    "RequestGroup_RelatedAction": {"relationship": RELATED_ACTION},
    "ServiceRequest": {"status": REQUEST, "intent": INTENT | {"directive"}, "priority": PRIORITY},
}
STU3_CODES: Final[Bindings] = {
    "ActivityDefinition_Participant": {"type": ACTIVITY},
    "Condition": {"clinicalStatus": _codes("active recurrence inactive remission resolved")},
    "Coverage": {"status": COVERAGE},
    "DocumentReference": {"docStatus": DOCUMENT | {"appended"}},
    "Immunization": {"status": _codes("completed entered-in-error")},
    "Procedure": {"status": _codes("preparation in-progress suspended aborted completed entered-in-error unknown")},
    "ProcedureRequest": {"status": REQUEST_STU3, "intent": INTENT, "priority": PRIORITY},
    "RequestGroup": {"status": REQUEST_STU3, "intent": INTENT, "priority": PRIORITY},
    "RequestGroup_Action": ACTION,
    "RequestGroup_Condition": {"kind": CONDITION},
    "RequestGroup_RelatedAction": {"relationship": RELATED_ACTION},
}
# R4's own, which clients of STU3 send too.
TOLERATED: Final[Bindings] = {
    "Condition": {"clinicalStatus": _codes("relapse")},
    "Immunization": {"status": IMMUNIZATION},
    "Procedure": {"status": PROCEDURE},
    "ProcedureRequest": {"status": REQUEST, "intent": _codes("directive")},
    "RequestGroup": {"status": REQUEST, "intent": _codes("directive")},
}
NONE: Final[frozenset[str]] = frozenset()


def bound(name: str, properties: JsonObject, own: Bindings, further: Bindings) -> JsonObject:
    """Return the elements of a named definition, the values of some restricted to their codes."""
    more = further.get(name, {})
    codes = {element: sorted(allowed | more.get(element, NONE)) for element, allowed in own.get(name, {}).items()}
    return {**properties, **{element: {"enum": allowed} for element, allowed in codes.items()}}


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
    "Group": ("type", "actual"),
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
    "Subscription": ("status", "reason", "criteria"),
    "Subscription_Channel": ("type",),
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


CONTAINED: Final = "contained"
NESTED: Final = (dict, list)
WHOLE: Final = frozenset({"integer", "positiveInt", "unsignedInt"})
# Suffixes of choices whose type is a date (`onsetDateTime`).
DATED: Final = ("Date", "DateTime", "Instant")
# The elements with a choice of types, in all types reached from the stored ones.
CHOICES: Final = (
    "abatement",
    "additive",
    "age",
    "allowed",
    "answer",
    "asNeeded",
    "author",
    "born",
    "bounds",
    "collected",
    "deceased",
    "detail",
    "doseNumber",
    "due",
    "effective",
    "fastingStatus",
    "initial",
    "medication",
    "multipleBirth",
    "occurred",
    "occurrence",
    "offset",
    "onBehalfOf",
    "onset",
    "performed",
    "product",
    "rate",
    "reason",
    "reported",
    "seriesDoses",
    "start",
    "subject",
    "time",
    "timing",
    "value",
    "what",
    "who",
)


class Names(NamedTuple):
    """The elements of a version whose texts are dates, and those whose numbers are whole.

    `checked`: all of them; `choices`: the choice (`value`) that an element (`valueString`) belongs to.
    """

    dated: frozenset[str]
    whole: frozenset[str]
    checked: frozenset[str]
    choices: Mapping[str, str]


def names_of(types: Mapping[str, Collection[str]], dated: frozenset[str]) -> Names:
    """Return the names of a version from the types of its elements by name and the names that are always dates."""
    choices = {name: choice for name, found in types.items() for choice in CHOICES if chosen(name, choice, found)}
    whole = frozenset(name for name, found in types.items() if WHOLE.intersection(found) and "decimal" not in found)
    dated |= {name for name in types if name.endswith(DATED)}
    return Names(dated, whole, dated | whole, choices)


def chosen(name: str, choice: str, types: Collection[str]) -> bool:
    """True if an element belongs to a choice of the given types: `reasonReference` may, `reasonCode` does not."""
    return name.startswith(choice) and any(name[len(choice) :] == one[0].upper() + one[1:] for one in types)


def extra_defects(resource: JsonObject, name: str, names: Names) -> list[Defect]:
    """Return the first defects that no schema finds; contained resources are not checked."""
    found: list[Defect] = []
    _look(resource, name, names, found)
    return found


def _look(part: Any, path: str, names: Names, found: list[Defect]) -> None:
    if len(found) >= MOST:
        return
    if isinstance(part, list):
        if not part:
            found.append(Defect(path, DefectKind.STRUCTURE, "an empty list"))
        for index, item in enumerate(part):
            if isinstance(item, NESTED):
                _look(item, f"{path}[{index}]", names, found)
        return
    if not part:
        found.append(Defect(path, DefectKind.STRUCTURE, "an empty object"))
    made = [names.choices[key] for key in part if key in names.choices]
    if len(made) != len(set(made)):
        twice = (one for one in CHOICES if made.count(one) > 1)
        found += [
            Defect(f"{path}.{one}[x]", DefectKind.STRUCTURE, "more than one choice of the element") for one in twice
        ]
    for key, value in part.items():
        if isinstance(value, NESTED) and (key != CONTAINED or not value):
            _look(value, f"{path}.{key}", names, found)
        if key in names.checked:
            fault = _fault(key, value, names)
            if fault:
                found.append(Defect(f"{path}.{key}", DefectKind.VALUE, fault))


def valid_date(text: str) -> bool:
    """True if the date part of a FHIR date or dateTime (YYYY, YYYY-MM, YYYY-MM-DD...) is in the calendar."""
    parts = text[:10].split("-")
    try:
        date(*(int(part) for part in [*parts, "1", "1"][:3]))
    except ValueError:
        return False
    return True


def _fault(key: str, value: Json, names: Names) -> str:
    """Return what is wrong with a date or a whole number; '' for a good value, and for one of another shape."""
    if isinstance(value, NESTED):
        return next(filter(None, (_fault(key, one, names) for one in value if not isinstance(one, NESTED))), "")
    if isinstance(value, str):
        wrong = key in names.dated and value[:4].isdigit() and not valid_date(value)
        return "the date is not in the calendar" if wrong else ""
    wrong = key in names.whole and isinstance(value, Decimal | float)
    return "a whole number of 32 bits is written in digits alone" if wrong else ""
