"""Medicines and immunizations: Medication Activity and Immunization Activity as R4, with times, dose and route."""

from decimal import Decimal
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import (
    bounds,
    day,
    identifiers,
    interval,
    number,
    period,
    plain,
    quantity,
    text_of,
    timed,
    whole,
)
from engine.interchange.clinical.ccda.reading.element import (
    Element,
    every,
    first,
    is_negated,
    related,
    said,
    tag,
    templates,
    value_type,
)
from engine.interchange.clinical.ccda.reading.parties import author, authored, organization, performers

EVENTS: Final = frozenset(["HS", "WAKE", "C", "CM", "CD", "CV", "AC", "ACM", "ACD", "ACV", "PC", "PCM", "PCD", "PCV"])
# How far the period of "three times a day" may be from a third of a day.
EXACT: Final = Decimal("0.001")
MOST_OFTEN: Final = 24
UNITS: Final = frozenset({"s", "min", "h", "d", "wk", "mo", "a"})
MINUTES: Final = {"min": 1, "h": 60, "d": 1440}
# Medication Free Text Sig, and Instruction.
SIG: Final = "2.16.840.1.113883.10.20.22.4.147"
SIG_CODE: Final = "76662-6"
INSTRUCTION: Final = "2.16.840.1.113883.10.20.22.4.20"


def dosage_of(chart: ReadChart, entry: Element) -> JsonObject:
    """Return the Dosage of a substance administration; {} for none."""
    as_needed = first(entry, "precondition")
    reason = chart.concept(first(as_needed, "criterion/value"))
    needed = {"asNeededCodeableConcept": reason} if reason else {"asNeededBoolean": True}
    return {
        "text": _sig(chart, entry),
        "patientInstruction": _instruction(chart, entry),
        "timing": _timing(entry),
        **(needed if as_needed is not None else {}),
        "site": chart.concept(first(entry, "approachSiteCode")),
        "route": chart.concept(first(entry, "routeCode")),
        "doseAndRate": [_dose(entry)],
        "maxDosePerPeriod": _most(entry),
    }


def dose_of(entry: Element) -> JsonObject:
    """Return the dose as a Quantity; the unit is that of the administration where the dose has none."""
    found = quantity(first(entry, "doseQuantity"))
    unit = said(entry, "displayName", "administrationUnitCode")
    return {**found, "unit": plain(unit)} if found and unit and "unit" not in found else found


def _dose(entry: Element) -> JsonObject:
    found: JsonObject = {}
    for name, path in (("dose", "doseQuantity"), ("rate", "rateQuantity")):
        low, high = bounds(first(entry, path))
        single = dose_of(entry) if name == "dose" else quantity(first(entry, path))
        if low or high:
            found[f"{name}Range"] = {"low": low, "high": high}
        elif single:
            found[f"{name}Quantity"] = single
    return found


def _most(entry: Element) -> JsonObject:
    most = first(entry, "maxDoseQuantity")
    parts = {name: quantity(first(most, name)) for name in ("numerator", "denominator")}
    return parts if all(parts.values()) else {}


def _timing(entry: Element) -> JsonObject:
    """Return how often; the interval in which it is given is no part of it."""
    for time in every(entry, "effectiveTime"):
        kind = value_type(time)
        repeat = _periodic(time) if kind == "PIVL_TS" else _at_event(time) if kind == "EIVL_TS" else {}
        if repeat:
            return {"repeat": repeat}
    return {}


def _periodic(time: Element) -> JsonObject:
    """Return a repetition of once a period, or several times a unit; `period` may be an interval itself."""
    span = first(time, "period")
    low, high = bounds(span)
    once = low or quantity(span)
    unit = once.get("unit", "")
    if unit not in UNITS or not _positive(once["value"]):
        return {}
    often = round(1 / once["value"])
    if 1 < often <= MOST_OFTEN and abs(often * once["value"] - 1) < EXACT and not high:
        return {"frequency": often, "period": 1, "periodUnit": unit}
    longest = {"periodMax": high["value"]} if low and high.get("unit") == unit and _positive(high["value"]) else {}
    return {"frequency": 1, "period": once["value"], **longest, "periodUnit": unit}


def _at_event(time: Element) -> JsonObject:
    event = said(time, "code", "event")
    offset = first(time, "offset")
    amount = number(said(offset, "value")) or number(said(offset, "value", "low"))
    unit = said(offset, "unit") or said(offset, "unit", "low")
    minutes = Decimal(amount or 0) * MINUTES.get(unit, 0)
    whole = int(minutes) if minutes == minutes.to_integral_value() and 0 < minutes < 100_000 else None
    return {"when": [event], "offset": whole} if event in EVENTS else {}


def _positive(value: int | Decimal) -> bool:
    return value > 0


def _sig(chart: ReadChart, entry: Element) -> str:
    """Return the free text that the prescription says: "one tablet in the morning"."""
    for one in related(entry, name="substanceAdministration"):
        if SIG in templates(one) or said(one, "code", "code") == SIG_CODE:
            return chart.text(first(one, "text"))
    return ""


def _instruction(chart: ReadChart, entry: Element) -> str:
    for one in related(entry, name="act"):
        if INSTRUCTION in templates(one) and (text := chart.text(first(one, "text"))):
            return text
    return ""


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
    codes = {coding["code"] for coding in found.get("coding", ())}
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
    return next((time for time in times if value_type(time) not in {"PIVL_TS", "EIVL_TS"}), None)


def _dispense(entry: Element) -> JsonObject:
    """Return what is to be handed out, by the Medication Supply Order; the first of its fills is no repeat."""
    for supply in related(entry, name="supply"):
        if said(supply, "moodCode") != DONE:
            amount = quantity(first(supply, "quantity"))
            fills = whole(said(supply, "value", "repeatNumber"))
            return {"quantity": amount, "numberOfRepeatsAllowed": None if fills is None else max(fills - 1, 0)}
    return {}


FUNCTION: Final = "http://terminology.hl7.org/CodeSystem/v2-0443"
REFUSAL: Final = "2.16.840.1.113883.10.20.22.4.53"
REFUSALS: Final = "2.16.840.1.113883.5.8"
DOSE_NUMBER: Final = "30973-2"
# What immunization registries write for an unknown dose number.
UNKNOWN_DOSE: Final = 999
STATUSES: Final = {"completed": "completed", "active": "completed", "nullified": "entered-in-error"}
MANUFACTURED: Final = "consumable/manufacturedProduct"
UNKNOWN_WHEN: Final = "unknown"


def read_immunization(chart: ReadChart, entry: Element) -> None:
    """Keep an Immunization Activity; one that was refused, or not done, has the status `not-done`."""
    if said(entry, "moodCode") in INTENTS:
        read_planned_medication(chart, entry)
        return
    vaccine = medicine_of(chart, entry)
    if not vaccine:
        return
    product = first(entry, MANUFACTURED)
    expiry = first(product, "manufacturedMaterial/expirationTime")
    when, _ = interval(first(entry, "effectiveTime"), chart.offset)
    done = not is_negated(entry)
    chart.add(
        "Immunization",
        {
            "identifier": identifiers(entry),
            "status": STATUSES.get(said(entry, "code", "statusCode") or "completed", "not-done")
            if done
            else "not-done",
            "statusReason": _refusal(chart, entry),
            "vaccineCode": vaccine,
            **({"occurrenceDateTime": when} if when else {"occurrenceString": UNKNOWN_WHEN}),
            "recorded": authored(chart, entry),
            "manufacturer": organization(chart, first(product, "manufacturerOrganization")),
            "lotNumber": text_of(first(product, "manufacturedMaterial/lotNumberText")),
            "expirationDate": day(said(expiry, "value")),
            "site": chart.concept(first(entry, "approachSiteCode")),
            "route": chart.concept(first(entry, "routeCode")),
            "doseQuantity": dose_of(entry),
            "performer": [
                {"function": {"coding": [{"system": FUNCTION, "code": "AP"}]}, "actor": performer}
                for performer in performers(chart, entry)
            ],
            "reasonCode": reasons(chart, entry),
            "note": notes(chart, entry),
            "protocolApplied": _dose_number(entry),
        },
    )


def _refusal(chart: ReadChart, entry: Element) -> JsonObject:
    for one in related(entry):
        if REFUSAL in templates(one) or said(one, "codeSystem", "code") == REFUSALS:
            return chart.concept(first(one, "code"))
    return {}


def _dose_number(entry: Element) -> list[JsonObject]:
    """Return the dose's number in its series: from an observation, else the repeat number."""
    values = [first(one, "value") for one in related(entry) if said(one, "code", "code") == DOSE_NUMBER]
    number = next((whole(said(value, "value"), 1) for value in values), None) or whole(
        said(entry, "value", "repeatNumber"), 1
    )
    return [{"doseNumberPositiveInt": number}] if number and number != UNKNOWN_DOSE else []
