"""Medications: MedicationRequest and MedicationStatement as activities, with dose, route, frequency and directions."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import ASSERTION, RXNORM, SNOMED, add_code, label, labels, loinc
from engine.interchange.clinical.ccda.element import TYPE, Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_author, add_performer, name_of
from engine.interchange.clinical.ccda.quantities import (
    add_measure,
    add_quantity,
    add_range,
    number,
    shown_quantity,
    shown_range,
)
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import (
    SectionTable,
    SectionWriter,
    add_entry,
    add_notes,
    add_related,
    cell,
)
from engine.interchange.clinical.ccda.times import Span, add_interval, readable_span, span_of
from engine.interchange.clinical.medication import medication_of

ACTIVITY: Final = template("4.16", "2014-06-09")
PLANNED: Final = template("4.42", "2014-06-09")
INFORMATION: Final = template("4.23", "2014-06-09")
INDICATION: Final = template("4.19", "2014-06-09")
DIRECTIONS: Final = template("4.147")
SUPPLY: Final = template("4.17", "2014-06-09")
NCI: Final = "2.16.840.1.113883.3.26.1.1"
STATUSES: Final[Mapping[str, str]] = {
    "active": "active",
    "intended": "active",
    "draft": "active",
    "completed": "completed",
    "not-taken": "completed",
    "on-hold": "suspended",
    "stopped": "aborted",
    "cancelled": "aborted",
}
# A request that is not ordered yet belongs to the plan.
INTENDED: Final[Mapping[str, str]] = {"proposal": "PRP", "plan": "INT"}
DIRECTION_CELL: Final = 3
NEEDED: Final = re.compile(r"\b(?:needed|prn|p\.r\.n\.)", re.IGNORECASE)


def ordered(record: DocumentRecord) -> Sequence[JsonObject]:
    """Return the requests and statements that are no mere plan."""
    requests = [one for one in record.of_type("MedicationRequest") if one.get("intent") not in INTENDED]
    return [*requests, *record.of_type("MedicationStatement")]


def planned(record: DocumentRecord) -> Sequence[JsonObject]:
    """Return the open requests that are a proposal or a plan."""
    return [
        one
        for one in record.of_type("MedicationRequest")
        if one.get("intent") in INTENDED and STATUSES.get(one.get("status", "")) in {"active", "suspended"}
    ]


def dosages(resource: JsonObject) -> Sequence[JsonObject]:
    """Return the dosages of a request or a statement."""
    return resource.get("dosageInstruction") or resource.get("dosage") or ()


def add_reasons(record: DocumentRecord, parent: Element, resource: JsonObject) -> None:
    """Append the reasons of an entry as indications."""
    for at, reason in enumerate(resource.get("reasonCode") or ()):
        made = add_related(parent, "RSON", "observation", "OBS")
        add_templates(made, INDICATION)
        record.add_ids(made, resource, f"reason-{at}")
        add(made, "code", **ASSERTION)
        add(made, "statusCode", code="completed")
        add_code(made, "value", reason, prefer=(SNOMED,), data_type="CD")


def add_consumable(parent: Element, concept: JsonObject, anchor: str) -> None:
    """Append the medication of an activity."""
    product = add(add(parent, "consumable"), "manufacturedProduct", classCode="MANU")
    add_templates(product, INFORMATION)
    add_code(add(product, "manufacturedMaterial"), "code", concept, prefer=(RXNORM,), anchor=anchor)


def add_medication(
    record: DocumentRecord, made: Element, resource: JsonObject, anchor: str, *, plan: bool = False
) -> None:
    """Fill the activity of a request or a statement; `plan`: as the plan of treatment asks for it."""
    add_templates(made, PLANNED if plan else ACTIVITY)
    record.add_ids(made, resource)
    add_reference(made, anchor)
    status = "active" if plan else STATUSES.get(resource.get("status", ""), "")
    add(made, "statusCode", code=status) if status else add(made, "statusCode", nullFlavor="UNK")
    dosage: JsonObject = next(iter(dosages(resource)), {})
    taken = add_interval(made, "effectiveTime", span(resource, dosage), record.zone)
    taken.set(TYPE, "IVL_TS")
    _add_frequency(made, (dosage.get("timing") or {}).get("repeat") or {})
    if dosage.get("route"):
        add_code(made, "routeCode", dosage["route"], prefer=(NCI,))
    if dosage.get("site"):
        add_code(made, "approachSiteCode", dosage["site"], prefer=(SNOMED,))
    _add_dose(made, next(iter(dosage.get("doseAndRate") or ()), {}))
    add_consumable(made, medication_of(resource, record.find), cell(anchor))
    if resource.get("performer"):
        add_performer(made, record, resource["performer"], resource)
    author = resource.get("requester") or resource.get("informationSource")
    add_author(made, record, author, resource, resource.get("authoredOn") or resource.get("dateAsserted"))
    if dosages(resource):
        _add_directions(made, cell(anchor, DIRECTION_CELL))
    add_reasons(record, made, resource)
    if resource.get("dispenseRequest"):
        _add_supply(record, made, resource)


def span(resource: JsonObject, dosage: JsonObject) -> Span:
    """Return from when to when it is taken: as stated, as the dosage bounds it, or from when it was written."""
    bounds = ((dosage.get("timing") or {}).get("repeat") or {}).get("boundsPeriod") or {}
    stated = span_of(resource, "effective")
    if any(stated):
        return stated
    return bounds.get("start") or resource.get("authoredOn", ""), bounds.get("end", "")


def _add_frequency(made: Element, repeat: JsonObject) -> None:
    """Append the frequency as a period in hours; institutionSpecified, as staff may choose the hours."""
    if not (repeat.get("period") and repeat.get("periodUnit")):
        return
    often = add(made, "effectiveTime", institutionSpecified="true", operator="A")
    often.set(TYPE, "PIVL_TS")
    period = Decimal(str(repeat["period"])) / (repeat.get("frequency") or 1)
    add(often, "period", value=number(round(period, 4).normalize()), unit=repeat["periodUnit"])


def _add_dose(made: Element, dose: JsonObject) -> None:
    """Append the dose, with a null flavor if unknown, and the rate."""
    if dose.get("doseRange"):
        add_range(made, "doseQuantity", dose["doseRange"])
    else:
        add_quantity(made, "doseQuantity", dose.get("doseQuantity"))
    if (dose.get("rateQuantity") or {}).get("unit"):
        add_measure(made, "rateQuantity", dose["rateQuantity"])


def _add_directions(parent: Element, anchor: str) -> None:
    """Append the directions as they were written: a reference to the narrative."""
    made = add_related(parent, "COMP", "substanceAdministration", "SBADM", str(parent.get("moodCode")))
    add_templates(made, DIRECTIONS)
    add(made, "code", **loinc("76662-6", "Instructions Medication"))
    add_reference(made, anchor)
    product = add(add(made, "consumable"), "manufacturedProduct")
    add(product, "manufacturedLabeledDrug", nullFlavor="NA")


def _add_supply(record: DocumentRecord, parent: Element, resource: JsonObject) -> None:
    wanted = resource["dispenseRequest"]
    made = add_related(parent, "REFR", "supply", "SPLY", "INT")
    add_templates(made, SUPPLY)
    record.add_ids(made, resource, "supply")
    add(made, "statusCode", code=STATUSES.get(resource.get("status", ""), "completed"))
    until = (wanted.get("validityPeriod") or {}).get("end", "")
    if until:
        begun = (wanted.get("validityPeriod") or {}).get("start", "")
        add_interval(made, "effectiveTime", (begun, until), record.zone).set(TYPE, "IVL_TS")
    if "numberOfRepeatsAllowed" in wanted:
        add(made, "repeatNumber", value=str(wanted["numberOfRepeatsAllowed"] + 1))
    if wanted.get("quantity"):
        add_quantity(made, "quantity", wanted["quantity"])


def shown_dose(dosage: JsonObject) -> str:
    """Return a dose as people read it."""
    dose: JsonObject = next(iter(dosage.get("doseAndRate") or ()), {})
    return shown_quantity(dose.get("doseQuantity")) or shown_range(dose.get("doseRange") or {})


def directions(resource: JsonObject) -> str:
    """Return the directions of all dosages as people read them."""
    return "; ".join(_direction(dosage) for dosage in dosages(resource))


def _direction(dosage: JsonObject) -> str:
    """Return the directions of one dosage; "as needed" is never left out."""
    directions = str(
        dosage.get("text")
        or dosage.get("patientInstruction")
        or label((dosage.get("timing") or {}).get("code"))
        or "as directed"
    )
    if not (dosage.get("asNeededBoolean") or dosage.get("asNeededCodeableConcept")) or NEEDED.search(directions):
        return directions
    reason = label(dosage.get("asNeededCodeableConcept"))
    return f"{directions}, as needed{f' for {reason}' if reason else ''}"


def _write(record: DocumentRecord, section: Element, table: SectionTable, resource: JsonObject) -> None:
    dosage: JsonObject = next(iter(dosages(resource)), {})
    anchor = table.row(
        label(medication_of(resource, record.find)),
        shown_dose(dosage),
        directions(resource),
        label(dosage.get("route")),
        readable_span(span(resource, dosage), record.zone),
        "not to be taken" if resource.get("doNotPerform") else resource.get("status", ""),
        labels(resource.get("reasonCode")),
        name_of(record, resource.get("requester"), resource),
    )
    mood = "INT" if resource["resourceType"] == "MedicationRequest" else "EVN"
    made = add_entry(section, "substanceAdministration", "SBADM", mood)
    if resource.get("doNotPerform") or resource.get("status") == "not-taken":
        made.set("negationInd", "true")
    add_medication(record, made, resource, anchor)
    add_notes(made, resource, label(medication_of(resource, record.find)), table)


MEDICATIONS: Final = SectionWriter(
    "medications",
    loinc("10160-0", "History of medication use"),
    "Medications",
    (template("2.1.1", "2014-06-09"),),
    ("Medication", "Dose", "Directions", "Route", "Taken", "Status", "Reason", "Ordered by"),
    ordered,
    _write,
)
