"""Codes that FHIR binds an element to, where HL7's JSON Schemas let any text pass for them.

Source: the required bindings of FHIR R4 (4.0.1) and STU3 (3.0.1), for the types that are kept here; the names on the
left are those of the schemas' definitions. Elements whose codes the schemas list are not repeated here.
"""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject

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
