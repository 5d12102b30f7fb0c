"""What is to come and who pays: Goal Observation as Goal, Coverage and Policy Activity as Coverage."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import URI, identifiers, interval, period, whole
from engine.interchange.clinical.ccda.reading.element import Element, every, first, related, said, templates
from engine.interchange.clinical.ccda.reading.medications import PLANS
from engine.interchange.clinical.ccda.reading.observations import code_of, value_of
from engine.interchange.clinical.ccda.reading.parties import author, authored, organization
from engine.interchange.clinical.ccda.reading.procedures import REQUESTS, read_plan

GOALS: Final = {
    "active": "active",
    "completed": "completed",
    "cancelled": "cancelled",
    "aborted": "cancelled",
    "held": "on-hold",
    "suspended": "on-hold",
    "new": "proposed",
    "nullified": "entered-in-error",
}
# SNOMED CT: a care plan.
CARE: Final = "734163000"
# What the value of a target may be.
DETAILS: Final = ("Quantity", "Range", "CodeableConcept", "String", "Boolean", "Integer", "Ratio")
RELATIONSHIPS: Final = "http://terminology.hl7.org/CodeSystem/subscriber-relationship"
RELATIONS: Final = {
    "SELF": "self",
    "SPS": "spouse",
    "CHILD": "child",
    "PRN": "parent",
    "PARNT": "parent",
    "DOMPART": "common",
    "FAMDEP": "other",
    "INJ": "injured",
}
CLASSES: Final = "http://terminology.hl7.org/CodeSystem/coverage-class"
# The plan that a policy is of.
DEFINITION: Final = "DEF"
HOLDER, COVERED = "HLD", "COV"
POLICY: Final = "2.16.840.1.113883.10.20.22.4.61"
PAYER: Final = "2.16.840.1.113883.10.20.22.4.87"
GUARANTOR: Final = "2.16.840.1.113883.10.20.22.4.88"


def read_goal(chart: ReadChart, entry: Element) -> None:
    """Keep a Goal Observation: what is aimed at, by when."""
    code = code_of(chart, entry)
    value = value_of(chart, first(entry, "value"))
    if not code:
        return
    low, high = interval(first(entry, "effectiveTime"), chart.offset)
    target = {f"detail{name}": value[f"value{name}"] for name in DETAILS if f"value{name}" in value}
    due = high.partition("T")[0] if high != low else ""
    chart.add(
        "Goal",
        {
            "identifier": identifiers(entry),
            "lifecycleStatus": GOALS.get(said(entry, "code", "statusCode"), "active"),
            "description": code,
            "startDate": low.partition("T")[0],
            "target": [{**({"measure": code} if target else {}), **target, "dueDate": due}] if target or due else [],
            "expressedBy": author(chart, entry),
            "note": notes(chart, entry),
        },
    )


def read_planned_act(chart: ReadChart, entry: Element) -> None:
    """Keep a Planned Act as a CarePlan if its code is care or it has instructions, else as a ServiceRequest."""
    instructions = related(entry, "COMP", "act")
    code = code_of(chart, entry)
    if said(entry, "code", "code") != CARE and not instructions:
        read_plan(chart, entry)
        return
    low, high = interval(first(entry, "effectiveTime"), chart.offset)
    chart.add(
        "CarePlan",
        {
            "identifier": identifiers(entry),
            "status": REQUESTS.get(said(entry, "code", "statusCode"), "unknown"),
            "intent": PLANS.get(said(entry, "moodCode"), "plan"),
            "category": [] if said(entry, "code", "code") == CARE else [code],
            "period": period(low, high if high != low else ""),
            "created": authored(chart, entry),
            "author": author(chart, entry),
            "activity": [{"detail": _activity(chart, instruction)} for instruction in instructions],
            "note": notes(chart, entry),
        },
    )


def _activity(chart: ReadChart, act: Element) -> JsonObject:
    code = code_of(chart, act)
    words = {"code": code} if code.get("coding") else {"description": code.get("text", "")}
    return {"status": "unknown", **words}


def read_coverage(chart: ReadChart, entry: Element) -> None:
    """Keep the policies of a Coverage Activity, or a single policy; one without a payor is left out."""
    if POLICY in templates(entry) or not related(entry, name="act"):
        _read_policy(chart, entry, None)
        return
    for relation in every(entry, "entryRelationship"):
        for policy in every(relation, "act"):
            _read_policy(chart, policy, whole(said(relation, "value", "sequenceNumber"), 1))


def _read_policy(chart: ReadChart, policy: Element, order: int | None) -> None:
    payor = _payor(chart, policy)
    if payor:
        chart.add("Coverage", _coverage(chart, policy, payor) | {"order": order})


def _coverage(chart: ReadChart, policy: Element, payor: JsonObject) -> JsonObject:
    covered, holder = (_participant(policy, kind) for kind in (COVERED, HOLDER))
    low, high = interval(first(covered, "time"), chart.offset)
    members = [one["value"] for role in (holder, covered) for one in identifiers(first(role, "participantRole"))]
    defined = (one for one in related(policy, name="act") if one.get("moodCode") == DEFINITION)
    plans = [chart.text(first(one, "text")) for one in defined]
    relation = RELATIONS.get(said(covered, "code", "participantRole/code"), "")
    return {
        # A UUID names the record of a policy, not the policy.
        "identifier": [identifier for identifier in identifiers(policy) if identifier.get("system") != URI],
        "status": "active",
        "type": chart.concept(first(policy, "code")),
        "subscriberId": next(iter(members), ""),
        "relationship": {"coding": [{"system": RELATIONSHIPS, "code": relation}]} if relation else {},
        "period": period(low, high),
        "payor": [payor],
        "class": [{"type": {"coding": [{"system": CLASSES, "code": "plan"}]}, "value": plan} for plan in plans if plan],
    }


def _payor(chart: ReadChart, policy: Element) -> JsonObject:
    """Return the Reference to who pays: by its template, else the first that is no guarantor; {} for nobody."""
    payers = [performer for performer in every(policy, "performer") if GUARANTOR not in templates(performer)]
    payers.sort(key=lambda one: PAYER not in templates(one))
    found = (organization(chart, first(payer, "assignedEntity/representedOrganization")) for payer in payers)
    return next(filter(None, found), {})


def _participant(policy: Element, kind: str) -> Element | None:
    return next((one for one in every(policy, "participant") if one.get("typeCode") == kind), None)
