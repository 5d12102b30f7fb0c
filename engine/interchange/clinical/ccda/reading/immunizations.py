"""Immunizations: Immunization Activity as Immunization; a planned one as MedicationRequest."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.concerns import notes
from engine.interchange.clinical.ccda.reading.datatypes import identifiers, text_of, whole
from engine.interchange.clinical.ccda.reading.dosage import dose_of
from engine.interchange.clinical.ccda.reading.element import Element, first, is_negated, related, said, templates
from engine.interchange.clinical.ccda.reading.medications import INTENTS, medicine_of, read_planned_medication, reasons
from engine.interchange.clinical.ccda.reading.parties import authored, organization, performers
from engine.interchange.clinical.ccda.reading.times import day, interval

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
                {"function": {"coding": [{"system": FUNCTION, "code": "AP"}]}, "actor": one}
                for one in performers(chart, entry)
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
    number = next((whole(said(one, "value"), 1) for one in values), None) or whole(
        said(entry, "value", "repeatNumber"), 1
    )
    return [{"doseNumberPositiveInt": number}] if number and number != UNKNOWN_DOSE else []
