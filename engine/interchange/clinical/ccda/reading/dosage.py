"""How a medicine is given: times (PIVL_TS, EIVL_TS), dose, rate and route as Dosage."""

from decimal import Decimal
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import bounds, number, plain, quantity
from engine.interchange.clinical.ccda.reading.element import Element, every, first, related, said, templates, value_type

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
