"""Medicines: Medication Activity as MedicationStatement (what is taken) or MedicationRequest (what is ordered)."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import identifiers, quantity, text_of, whole
from engine.interchange.clinical.ccda.reading.dosage import dosage_of
from engine.interchange.clinical.ccda.reading.element import (
    Element,
    every,
    first,
    is_negated,
    related,
    said,
    tag,
    value_type,
)
from engine.interchange.clinical.ccda.reading.parties import author, authored
from engine.interchange.clinical.ccda.reading.times import interval, period, timed

# SNOMED CT codes for medicines in general: negated, they mean that no medicine is taken.
ANY_MEDICINE: Final = frozenset({"410942007", "105590001", "787859002"})
STATEMENTS: Final = {
    "active": "active",
    "completed": "completed",
    "suspended": "on-hold",
    "held": "on-hold",
    "aborted": "stopped",
    "cancelled": "stopped",
    "new": "intended",
    "nullified": "entered-in-error",
    "obsolete": "entered-in-error",
}
REQUESTS: Final = {
    **STATEMENTS,
    "cancelled": "cancelled",
    "new": "draft",
}
# Moods: what is done, what is ordered, and what is only planned or proposed.
DONE: Final = "EVN"
INTENTS: Final = {"INT": "order", "RQO": "order", "PRMS": "plan", "PRP": "proposal", "ARQ": "plan", "APT": "plan"}
# In a plan, an intent is no order yet.
PLANS: Final = {**INTENTS, "INT": "plan"}
ACT: Final = tag("act")
# Indication, whose value says what for.
REASON: Final = "RSON"


def read_medication(chart: ReadChart, entry: Element) -> None:
    """Keep a Medication Activity, or those in an act around them, but not "no known medications".

    Discharge Medication and Admission Medication are such acts.
    """
    if entry.tag == ACT:
        if not is_negated(entry):
            for one in related(entry, name="substanceAdministration"):
                read_medication(chart, one)
        return
    medicine = medicine_of(chart, entry)
    if not medicine:
        return
    if said(entry, "moodCode") in INTENTS:
        _request(chart, entry, medicine, INTENTS[said(entry, "moodCode")])
    else:
        _statement(chart, entry, medicine)


def read_planned_medication(chart: ReadChart, entry: Element) -> None:
    """Keep a Planned Medication Activity as a request; one of no known mood is a plan."""
    medicine = medicine_of(chart, entry)
    if medicine:
        _request(chart, entry, medicine, PLANS.get(said(entry, "moodCode"), "plan"))


def medicine_of(chart: ReadChart, entry: Element) -> JsonObject:
    """Return the medicine of a substance administration; {} for one that has neither code nor name.

    {} too where a text alone is negated: it says that there is none ("no known medications").
    """
    material = first(entry, "consumable/manufacturedProduct/manufacturedMaterial")
    found = chart.concept(first(material, "code"))
    name = text_of(first(material, "name"))
    found = found or ({"text": name} if name else {})
    codes = {one["code"] for one in found.get("coding", ())}
    return {} if is_negated(entry) and codes <= ANY_MEDICINE else found


def reasons(chart: ReadChart, entry: Element) -> list[JsonObject]:
    """Return why something is given or done: the values of its indications."""
    return [found for one in related(entry, REASON) if (found := chart.concept(first(one, "value")))]


def _common(chart: ReadChart, entry: Element, medicine: JsonObject) -> JsonObject:
    return {
        "identifier": identifiers(entry),
        "medicationCodeableConcept": medicine,
        "reasonCode": reasons(chart, entry),
        "note": notes(chart, entry),
    }


def _statement(chart: ReadChart, entry: Element, medicine: JsonObject) -> None:
    status = "not-taken" if is_negated(entry) else STATEMENTS.get(said(entry, "code", "statusCode"), "unknown")
    chart.add(
        "MedicationStatement",
        {
            **_common(chart, entry, medicine),
            "status": status,
            **timed("effective", _given(entry), chart.offset),
            "dateAsserted": authored(chart, entry),
            "informationSource": author(chart, entry),
            "dosage": [dosage_of(chart, entry)],
        },
    )


def _request(chart: ReadChart, entry: Element, medicine: JsonObject, intent: str) -> None:
    dosage = dosage_of(chart, entry)
    low, high = interval(_given(entry), chart.offset)
    low, high = (low, high) if low != high else (low, "")
    written = authored(chart, entry)
    if high or low != written:
        repeat = dosage["timing"].get("repeat", {})
        dosage["timing"] = {"repeat": {**repeat, "boundsPeriod": period(low, high)}}
    chart.add(
        "MedicationRequest",
        {
            **_common(chart, entry, medicine),
            "status": REQUESTS.get(said(entry, "code", "statusCode"), "unknown"),
            "intent": intent,
            "doNotPerform": True if is_negated(entry) else None,
            "authoredOn": written,
            "requester": author(chart, entry),
            "dosageInstruction": [dosage],
            "dispenseRequest": _dispense(entry),
        },
    )


def _given(entry: Element) -> Element | None:
    """Return the interval in which a medicine is given, or the point in time at which it was."""
    times = every(entry, "effectiveTime")
    return next((one for one in times if value_type(one) not in {"PIVL_TS", "EIVL_TS"}), None)


def _dispense(entry: Element) -> JsonObject:
    """Return what is to be handed out, by the Medication Supply Order; the first of its fills is no repeat."""
    for supply in related(entry, name="supply"):
        if said(supply, "moodCode") != DONE:
            amount = quantity(first(supply, "quantity"))
            fills = whole(said(supply, "value", "repeatNumber"))
            return {"quantity": amount, "numberOfRepeatsAllowed": None if fills is None else max(fills - 1, 0)}
    return {}
