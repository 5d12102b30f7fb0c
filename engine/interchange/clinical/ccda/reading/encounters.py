"""Encounters: Encounter Activity, and the visit that a document is about (componentOf), as Encounter."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.datatypes import identifiers, interval, period
from engine.interchange.clinical.ccda.reading.element import Element, every, first, is_negated, related, said
from engine.interchange.clinical.ccda.reading.medications import INTENTS, reasons
from engine.interchange.clinical.ccda.reading.parties import distinct, organization, performers, person, place
from engine.interchange.clinical.ccda.reading.problems import read_diagnoses
from engine.interchange.clinical.ccda.reading.procedures import places

ACT_CODE: Final = "http://terminology.hl7.org/CodeSystem/v3-ActCode"
# Classes of encounters in version 3; a document has them as a code or as one of its translations.
CLASSES: Final = frozenset(["AMB", "EMER", "FLD", "HH", "IMP", "ACUTE", "NONAC", "OBSENC", "PRENC", "SS", "VR"])
PLANNED: Final = "planned"
UNKNOWN: Final = {"system": "http://terminology.hl7.org/CodeSystem/v3-NullFlavor", "code": "UNK"}
STATUSES: Final = {
    "completed": "finished",
    "active": "in-progress",
    "held": "planned",
    "suspended": "onleave",
    "aborted": "unknown",
    "cancelled": "cancelled",
    "new": "planned",
    "nullified": "entered-in-error",
    "obsolete": "entered-in-error",
}


def read_encounter(chart: ReadChart, entry: Element) -> None:
    """Keep an Encounter Activity; one in another mood than that of an event is planned."""
    kind = chart.concept(first(entry, "code"))
    when = _period(chart, entry)
    if is_negated(entry) or not (kind or when):
        return
    diagnoses = [made for act in related(entry, name="act") for made in read_diagnoses(chart, act)]
    chart.add(
        "Encounter",
        {
            "identifier": identifiers(entry),
            "status": _status(entry),
            **_classified(kind),
            "participant": [{"individual": performer} for performer in performers(chart, entry)],
            **when,
            "reasonCode": reasons(chart, entry),
            "diagnosis": [{"condition": {"reference": diagnosis}} for diagnosis in diagnoses],
            "hospitalization": {"dischargeDisposition": chart.concept(first(entry, DISPOSITION))},
            "location": [{"location": one} for one in places(chart, entry)],
        },
    )


DISPOSITION: Final = "sdtc:dischargeDispositionCode"


def _status(entry: Element) -> str:
    """Return the status; a past encounter without one is finished."""
    if said(entry, "moodCode") in INTENTS:
        return PLANNED
    return STATUSES.get(said(entry, "code", "statusCode"), "finished")


def read_visit(chart: ReadChart, visit: Element) -> None:
    """Keep the encounter that the document is about, unless an entry of it was already."""
    given = identifiers(visit)
    known = [
        one for kept in chart.resources if kept["resourceType"] == "Encounter" for one in kept.get("identifier", ())
    ]
    if not given or any(one in known for one in given):
        return
    facility = first(visit, "location/healthCareFacility")
    found = place(chart, facility)
    people = [person(chart, first(one, "assignedEntity")) for one in every(visit, "encounterParticipant")]
    people += [person(chart, first(one, "assignedEntity")) for one in every(visit, "responsibleParty")]
    chart.add(
        "Encounter",
        {
            "identifier": given,
            "status": "finished" if first(visit, "effectiveTime/high") is not None else "unknown",
            **_classified(chart.concept(first(visit, "code"))),
            "participant": [{"individual": one} for one in distinct(people)],
            **_period(chart, visit),
            "hospitalization": {"dischargeDisposition": chart.concept(first(visit, "dischargeDispositionCode"))},
            "location": [{"location": found}] if found else [],
            "serviceProvider": organization(chart, first(facility, "serviceProviderOrganization")),
        },
    )


def _classified(kind: JsonObject) -> JsonObject:
    """Return the class and the type of an encounter: a Coding of a class is the class, the rest the type."""
    coded = kind.get("coding", [])
    found = [one for one in coded if one["system"] == ACT_CODE and one["code"] in CLASSES]
    rest = {**kind, "coding": [one for one in coded if one not in found]}
    return {"class": found[0] if found else UNKNOWN, "type": [rest]}


def _period(chart: ReadChart, entry: Element) -> JsonObject:
    low, high = interval(first(entry, "effectiveTime"), chart.offset)
    return {"period": period(low, high)} if low or high else {}
