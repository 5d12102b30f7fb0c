"""Observations of any section: Result, Vital Sign and Social History Observation as Observation."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import bounds, identifiers
from engine.interchange.clinical.ccda.reading.element import (
    Element,
    every,
    first,
    is_negated,
    is_null,
    said,
    value_type,
)
from engine.interchange.clinical.ccda.reading.parties import authors, performers
from engine.interchange.clinical.ccda.reading.values import absence, value_of

CATEGORY: Final = "http://terminology.hl7.org/CodeSystem/observation-category"
RANGE: Final = "referenceRange/observationRange"
INTERPRETATION: Final = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
STATUSES: Final = {
    "completed": "final",
    "active": "preliminary",
    "held": "registered",
    "new": "registered",
    "suspended": "registered",
    "aborted": "cancelled",
    "cancelled": "cancelled",
    "nullified": "entered-in-error",
    "obsolete": "entered-in-error",
}


def category_of(code: str) -> list[JsonObject]:
    """Return the category of an observation as a list of CodeableConcepts."""
    return [{"coding": [{"system": CATEGORY, "code": code}]}]


def status_of(statement: Element) -> str:
    """Return the status of an observation or report; what has none and says a value is final."""
    return STATUSES.get(said(statement, "code", "statusCode"), "final")


def observation_of(chart: ReadChart, entry: Element, category: str, code: JsonObject | None = None) -> JsonObject:
    """Return the elements of an Observation; `code` in place of the one that the entry has.

    {} for one without a code, and for one that says that nothing was observed.
    """
    if is_null(entry):
        return {}
    code = code or code_of(chart, entry)
    values = every(entry, "value")
    value = next((found for one in values if (found := value_of(chart, one))), {})
    if not code or (is_negated(entry) and not value):
        return {}
    return {
        "identifier": identifiers(entry),
        "status": status_of(entry),
        "category": category_of(category),
        "code": code,
        **chart.timed("effective", first(entry, "effectiveTime")),
        "performer": performers(chart, entry) or authors(chart, entry),
        **value,
        "dataAbsentReason": {} if value or not values else absence(values[0]),
        "interpretation": [_interpreted(one) for one in chart.concepts(entry, "interpretationCode")],
        "bodySite": chart.concept(first(entry, "targetSiteCode")),
        "method": chart.concept(first(entry, "methodCode")),
        "referenceRange": [_range(chart, part) for part in every(entry, RANGE)],
        "note": notes(chart, entry),
    }


def _interpreted(concept: JsonObject) -> JsonObject:
    """Return an interpretation: a code without a system is one of the vocabulary that CDA has for it."""
    return {**concept, "coding": [{**one, "system": one["system"] or INTERPRETATION} for one in concept["coding"]]}


def code_of(chart: ReadChart, entry: Element) -> JsonObject:
    """Return what an entry is about: its code, else what people read of it; {} for none."""
    code = chart.concept(first(entry, "code"))
    text = chart.text(first(entry, "text"))
    return code or ({"text": text} if text else {})


def _range(chart: ReadChart, part: Element) -> JsonObject:
    """Return a reference range: its ends, or its text."""
    value = first(part, "value")
    low, high = bounds(value)
    text = chart.text(first(part, "text"))
    if value is not None and not (low or high) and value_type(value) in {"ST", "ED"}:
        text = text or chart.text(value)
    return {"low": low, "high": high, "text": text}
