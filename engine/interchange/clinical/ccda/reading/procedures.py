"""What was done: Procedure Activity (procedure, act, observation) as Procedure, what is planned as ServiceRequest."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import identifiers, interval
from engine.interchange.clinical.ccda.reading.element import Element, every, first, is_negated, said
from engine.interchange.clinical.ccda.reading.medications import INTENTS, PLANS, reasons
from engine.interchange.clinical.ccda.reading.observations import code_of
from engine.interchange.clinical.ccda.reading.parties import author, authored, performers, place

STATUSES: Final = {
    "completed": "completed",
    "active": "in-progress",
    "aborted": "stopped",
    "cancelled": "not-done",
    "held": "on-hold",
    "suspended": "on-hold",
    "new": "preparation",
    "nullified": "entered-in-error",
    "obsolete": "entered-in-error",
}
REQUESTS: Final = {
    "active": "active",
    "new": "draft",
    "held": "on-hold",
    "suspended": "on-hold",
    "cancelled": "revoked",
    "aborted": "revoked",
    "completed": "completed",
    "nullified": "entered-in-error",
    "obsolete": "entered-in-error",
}
# Code of a comment; a comment alone is not a procedure.
COMMENT: Final = "48767-8"


def read_procedure(chart: ReadChart, entry: Element) -> None:
    """Keep a Procedure Activity; one in another mood than that of an event is a plan."""
    if said(entry, "moodCode") in INTENTS:
        read_plan(chart, entry)
        return
    code = code_of(chart, entry)
    if is_negated(entry) and not code.get("coding"):
        return
    if not code or said(entry, "code", "code") == COMMENT:
        return
    status = "not-done" if is_negated(entry) else STATUSES.get(said(entry, "code", "statusCode"), "unknown")
    chart.add(
        "Procedure",
        {
            "identifier": identifiers(entry),
            "status": status,
            "code": code,
            **chart.timed("performed", first(entry, "effectiveTime")),
            "recorder": author(chart, entry),
            "performer": [{"actor": performer} for performer in performers(chart, entry)],
            "location": next(iter(places(chart, entry)), {}),
            "reasonCode": reasons(chart, entry),
            "bodySite": chart.concepts(entry, "targetSiteCode"),
            "note": notes(chart, entry),
        },
    )


def read_plan(chart: ReadChart, entry: Element) -> None:
    """Keep what is planned or ordered (procedure, act, observation) as a ServiceRequest."""
    code = code_of(chart, entry)
    if not code or (is_negated(entry) and not code.get("coding")):
        return
    low, high = interval(first(entry, "effectiveTime"), chart.offset)
    when = {"occurrenceDateTime": low} if low and (low == high or not high) else {}
    span = {"start": low, "end": high} if high and low != high else {}
    chart.add(
        "ServiceRequest",
        {
            "identifier": identifiers(entry),
            "status": REQUESTS.get(said(entry, "code", "statusCode"), "unknown"),
            "intent": PLANS.get(said(entry, "moodCode"), "plan"),
            "doNotPerform": True if is_negated(entry) else None,
            "code": code,
            **(when or {"occurrencePeriod": span}),
            "authoredOn": authored(chart, entry),
            "requester": author(chart, entry),
            "performer": performers(chart, entry),
            "reasonCode": reasons(chart, entry),
            "bodySite": chart.concepts(entry, "targetSiteCode"),
            "note": notes(chart, entry),
        },
    )


def places(chart: ReadChart, entry: Element) -> list[JsonObject]:
    """Return References to the places at which something was done."""
    roles = (first(one, "participantRole") for one in every(entry, "participant") if one.get("typeCode") == "LOC")
    return [found for role in roles if role is not None and (found := place(chart, role))]
