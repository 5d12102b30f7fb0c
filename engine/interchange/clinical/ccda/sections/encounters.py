"""Encounters: what kind, when, where, with whom, and the diagnoses that are of that encounter."""

from collections.abc import Mapping, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import add_code, label, labels, loinc
from engine.interchange.clinical.ccda.element import SDTC, Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_addresses, add_performer, add_telecoms, name_of
from engine.interchange.clinical.ccda.record import DocumentRecord, add_identifiers
from engine.interchange.clinical.ccda.section import (
    SectionTable,
    SectionWriter,
    add_entry,
    add_notes,
    add_related,
    cell,
)
from engine.interchange.clinical.ccda.sections.medications import add_reasons
from engine.interchange.clinical.ccda.sections.problems import add_problem, diagnoses
from engine.interchange.clinical.ccda.times import add_interval, readable_span

ACTIVITY: Final = template("4.49", "2015-08-01")
DIAGNOSIS: Final = template("4.80", "2015-08-01")
LOCATION: Final = template("4.32")
CPT: Final = "2.16.840.1.113883.6.12"
PLANNED: Final = "planned"
STATUSES: Final[Mapping[str, str]] = {
    "arrived": "active",
    "triaged": "active",
    "in-progress": "active",
    "onleave": "active",
    "finished": "completed",
    "cancelled": "cancelled",
}


def kind_of(encounter: JsonObject) -> JsonObject:
    """Return what kind of encounter it was: its type, with its class among the codes."""
    kinds = encounter.get("type") or ()
    codings = [coding for kind in kinds for coding in kind.get("coding") or ()]
    text = next((kind["text"] for kind in kinds if kind.get("text")), "")
    held = encounter.get("class") or {}
    return {"coding": [*codings, held] if held.get("code") else codings, "text": text}


def planned(record: DocumentRecord) -> Sequence[JsonObject]:
    """Return the encounters that are to come."""
    return [encounter for encounter in record.of_type("Encounter") if encounter.get("status") == PLANNED]


def people(encounter: JsonObject) -> list[JsonObject]:
    """Return references to those who took part."""
    return [one["individual"] for one in encounter.get("participant") or () if one.get("individual")]


def _places(encounter: JsonObject) -> list[JsonObject]:
    return [location["location"] for location in encounter.get("location") or () if location.get("location")]


def _items(record: DocumentRecord) -> Sequence[tuple[JsonObject, list[JsonObject]]]:
    """Return the encounters that are not to come, each with its diagnoses."""
    found = diagnoses(record)
    return [(one, found[one.get("id", "")]) for one in record.of_type("Encounter") if one.get("status") != PLANNED]


def _write(
    record: DocumentRecord, section: Element, table: SectionTable, item: tuple[JsonObject, list[JsonObject]]
) -> None:
    encounter, conditions = item
    period = encounter.get("period") or {}
    span = period.get("start", ""), period.get("end", "")
    anchor = table.row(
        label(kind_of(encounter)),
        readable_span(span, record.zone),
        encounter.get("status", ""),
        ", ".join(filter(None, (name_of(record, one, encounter) for one in _places(encounter))))
        or name_of(record, encounter.get("serviceProvider"), encounter),
        ", ".join(filter(None, (name_of(record, one, encounter) for one in people(encounter)))),
        labels(encounter.get("reasonCode")),
        "; ".join(label(one.get("code")) for one in conditions),
        label((encounter.get("hospitalization") or {}).get("dischargeDisposition")),
    )
    made = add_entry(section, "encounter", "ENC")
    add_templates(made, ACTIVITY)
    record.add_ids(made, encounter)
    add_code(made, "code", kind_of(encounter), prefer=(CPT,), anchor=cell(anchor))
    add_reference(made, anchor)
    status = STATUSES.get(encounter.get("status", ""))
    if status:
        add(made, "statusCode", code=status)
    add_interval(made, "effectiveTime", span, record.zone)
    _add_disposition(made, (encounter.get("hospitalization") or {}).get("dischargeDisposition"))
    for person in people(encounter):
        add_performer(made, record, person, encounter)
    for place in _places(encounter):
        _add_place(record, made, encounter, place)
    for condition in conditions:
        act = add_related(made, "COMP", "act", "ACT")
        add_templates(act, DIAGNOSIS)
        add(act, "code", **loinc("29308-4", "Diagnosis"))
        problem = add_related(act, "SUBJ", "observation", "OBS")
        add_problem(record, problem, condition, anchor, 7)
        add_notes(problem, condition, label(condition.get("code")), table)
    add_reasons(record, made, encounter)


def _add_disposition(parent: Element, concept: JsonObject | None) -> None:
    """Append where a patient went, in an extension."""
    if concept:
        add_code(parent, "dischargeDispositionCode", concept).tag = f"{{{SDTC}}}dischargeDispositionCode"


def _add_place(record: DocumentRecord, parent: Element, encounter: JsonObject, place: JsonObject) -> None:
    found = record.find(place, encounter) or {}
    role = add(add(parent, "participant", typeCode="LOC"), "participantRole", classCode="SDLOC")
    add_templates(role, LOCATION)
    add_identifiers(role, found.get("identifier"))
    add_code(role, "code", next(iter(found.get("type") or ()), None))
    if found:
        add_addresses(role, [found["address"]] if found.get("address") else ())
        add_telecoms(role, found.get("telecom"), most=2)
    name = name_of(record, place, encounter)
    if name:
        add(add(role, "playingEntity", classCode="PLC"), "name", name)


ENCOUNTERS: Final = SectionWriter(
    "encounters",
    loinc("46240-8", "History of encounters"),
    "Encounters",
    (template("2.22.1", "2015-08-01"),),
    ("Encounter", "Date", "Status", "Place", "With", "Reason", "Diagnoses", "Discharged to"),
    _items,
    _write,
)
