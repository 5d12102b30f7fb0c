"""Plan of treatment: open orders and proposals, planned encounters, plans of care."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import LOINC, LOINC_URI, SNOMED, add_code, has_code, label, labels, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_author, add_performer, name_of
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import (
    SectionTable,
    SectionWriter,
    add_entry,
    add_notes,
    add_related,
    cell,
)
from engine.interchange.clinical.ccda.sections import encounters, medications
from engine.interchange.clinical.ccda.sections.medications import add_medication, add_reasons
from engine.interchange.clinical.ccda.times import Span, add_interval, add_when, readable_span, span_of
from engine.interchange.clinical.medication import medication_of

PROCEDURE: Final = template("4.41", "2014-06-09")
OBSERVATION: Final = template("4.44", "2014-06-09")
ACT: Final = template("4.39", "2014-06-09")
ENCOUNTER: Final = template("4.40", "2014-06-09")
INSTRUCTION: Final = template("4.20", "2014-06-09")
STANDING: Final = frozenset({"active", "draft", "on-hold", "unknown"})
MOODS: Final[Mapping[str, str]] = {"proposal": "PRP", "plan": "INT"}
CARE_PLAN: Final = {"coding": [{"system": "http://snomed.info/sct", "code": "734163000", "display": "Care plan"}]}
LABORATORY: Final = ("108252007", "laboratory")


def _items(record: DocumentRecord) -> Sequence[JsonObject]:
    orders = [one for one in record.of_type("ServiceRequest") if one.get("status") in STANDING]
    plans = [care_plan for care_plan in record.of_type("CarePlan") if care_plan.get("status") in STANDING]
    return [*orders, *medications.planned(record), *encounters.planned(record), *plans]


def _write(record: DocumentRecord, section: Element, table: SectionTable, item: JsonObject) -> None:
    WRITERS[item["resourceType"]](record, section, table, item)


def _order(record: DocumentRecord, section: Element, table: SectionTable, order: JsonObject) -> None:
    span = span_of(order, "occurrence")
    asked = order.get("requester")
    anchor = table.row(
        label(order.get("code")),
        "not to be done" if order.get("doNotPerform") else order.get("intent", ""),
        readable_span(span, record.zone) or record.readable(order.get("authoredOn")),
        order.get("status", ""),
        labels(order.get("reasonCode")),
        name_of(record, asked, order),
    )
    test = any(has_code(category, *LABORATORY) for category in order.get("category") or ()) or any(
        coding.get("system") == LOINC_URI for coding in (order.get("code") or {}).get("coding") or ()
    )
    tag, class_code, kind = ("observation", "OBS", OBSERVATION) if test else ("procedure", "PROC", PROCEDURE)
    made = add_entry(section, tag, class_code, MOODS.get(order.get("intent", ""), "RQO"))
    if order.get("doNotPerform"):
        made.set("negationInd", "true")
    add_templates(made, kind)
    record.add_ids(made, order)
    add_code(made, "code", order.get("code"), prefer=(LOINC if test else SNOMED,), anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code="active")
    add_when(made, "effectiveTime", span, record.zone)
    for performer in order.get("performer") or ():
        add_performer(made, record, performer, order)
    add_author(made, record, asked, order, order.get("authoredOn"))
    add_reasons(record, made, order)
    add_notes(made, order, label(order.get("code")), table)


def _medication(record: DocumentRecord, section: Element, table: SectionTable, request: JsonObject) -> None:
    anchor = table.row(
        label(medication_of(request, record.find)),
        request.get("intent", ""),
        # The cell that the directions are found in, as in the section of medications.
        medications.directions(request),
        request.get("status", ""),
        labels(request.get("reasonCode")),
        name_of(record, request.get("requester"), request),
    )
    made = add_entry(section, "substanceAdministration", "SBADM", medications.INTENDED[request["intent"]])
    if request.get("doNotPerform"):
        made.set("negationInd", "true")
    add_medication(record, made, request, anchor, plan=True)
    add_notes(made, request, label(medication_of(request, record.find)), table)


def _encounter(record: DocumentRecord, section: Element, table: SectionTable, encounter: JsonObject) -> None:
    span = _period(encounter)
    kind = encounters.kind_of(encounter)
    with_whom = ", ".join(filter(None, (name_of(record, one, encounter) for one in encounters.people(encounter))))
    anchor = table.row(
        label(kind),
        "encounter",
        readable_span(span, record.zone),
        "planned",
        labels(encounter.get("reasonCode")),
        with_whom,
    )
    made = add_entry(section, "encounter", "ENC", "INT")
    add_templates(made, ENCOUNTER)
    record.add_ids(made, encounter)
    add_code(made, "code", kind, anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code="active")
    add_interval(made, "effectiveTime", span, record.zone)
    for person in encounters.people(encounter):
        add_performer(made, record, person, encounter)
    add_reasons(record, made, encounter)


def _care_plan(record: DocumentRecord, section: Element, table: SectionTable, plan: JsonObject) -> None:
    kind: JsonObject = next(iter(plan.get("category") or ()), {})
    details = [activity["detail"] for activity in plan.get("activity") or () if activity.get("detail")]
    activities = "; ".join(filter(None, (one.get("description") or label(one.get("code")) for one in details)))
    anchor = table.row(
        plan.get("title") or label(kind) or "Care plan",
        ": ".join(filter(None, (plan.get("description", ""), activities))) or plan.get("intent", ""),
        readable_span(_period(plan), record.zone),
        plan.get("status", ""),
        "; ".join(filter(None, (name_of(record, address, plan) for address in plan.get("addresses") or ()))),
        name_of(record, plan.get("author"), plan),
    )
    made = add_entry(section, "act", "ACT", MOODS.get(plan.get("intent", ""), "INT"))
    add_templates(made, ACT)
    record.add_ids(made, plan)
    named = {**(kind or CARE_PLAN), **({"text": plan["title"]} if plan.get("title") else {})}
    add_code(made, "code", named, prefer=(SNOMED,), anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code="active")
    add_interval(made, "effectiveTime", _period(plan), record.zone)
    add_author(made, record, plan.get("author"), plan, plan.get("created"))
    for detail in details:
        if detail.get("description") or detail.get("code"):
            instruction = add_related(made, "COMP", "act", "ACT", "INT")
            add_templates(instruction, INSTRUCTION)
            add_code(instruction, "code", detail.get("code") or {"text": detail["description"]}, prefer=(SNOMED,))
            add_reference(instruction, cell(anchor, 2))
            add(instruction, "statusCode", code="completed")


def _period(resource: JsonObject) -> Span:
    period = resource.get("period") or {}
    return period.get("start", ""), period.get("end", "")


WRITERS: Final = {
    "ServiceRequest": _order,
    "MedicationRequest": _medication,
    "Encounter": _encounter,
    "CarePlan": _care_plan,
}
PLAN: Final = SectionWriter(
    "plan",
    loinc("18776-5", "Plan of care note"),
    "Plan of Treatment",
    (template("2.10", "2014-06-09"),),
    ("What", "How", "When", "Status", "Reason", "Ordered by"),
    _items,
    _write,
)
