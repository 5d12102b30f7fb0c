"""Immunizations: given ones, and those that were not given with the reason."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import CVX, SNOMED, add_code, label, labels, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_performer, name_of
from engine.interchange.clinical.ccda.quantities import add_quantity, shown_quantity
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import (
    SectionTable,
    SectionWriter,
    add_entry,
    add_notes,
    add_related,
    cell,
)
from engine.interchange.clinical.ccda.sections.medications import NCI, add_reasons
from engine.interchange.clinical.ccda.times import add_time

ACTIVITY: Final = template("4.52", "2015-08-01")
INFORMATION: Final = template("4.54", "2014-06-09")
REFUSAL: Final = template("4.53")
ACT_REASON: Final = "2.16.840.1.113883.5.8"


def _write(record: DocumentRecord, section: Element, table: SectionTable, given: JsonObject) -> None:
    refused = given.get("status") == "not-done"
    performers = [one["actor"] for one in given.get("performer") or () if one.get("actor")]
    anchor = table.row(
        label(given.get("vaccineCode")),
        record.readable(given.get("occurrenceDateTime")) or given.get("occurrenceString", ""),
        "not given" if refused else given.get("status", ""),
        given.get("lotNumber", ""),
        shown_quantity(given.get("doseQuantity")),
        label(given.get("route")),
        label(given.get("statusReason")) or labels(given.get("reasonCode")),
        ", ".join(name_of(record, one, given) for one in performers),
    )
    made = add_entry(section, "substanceAdministration", "SBADM", negationInd="true" if refused else "false")
    add_templates(made, ACTIVITY)
    record.add_ids(made, given)
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    add_time(made, "effectiveTime", given.get("occurrenceDateTime", ""), record.zone)
    if given.get("route"):
        add_code(made, "routeCode", given["route"], prefer=(NCI,))
    if given.get("site"):
        add_code(made, "approachSiteCode", given["site"], prefer=(SNOMED,))
    if given.get("doseQuantity"):
        add_quantity(made, "doseQuantity", given["doseQuantity"])
    _add_vaccine(record, made, given, anchor)
    for performer in performers:
        add_performer(made, record, performer, given)
    if refused:
        _add_refusal(record, made, given)
    add_reasons(record, made, given)
    add_notes(made, given, label(given.get("vaccineCode")), table)


def _add_vaccine(record: DocumentRecord, parent: Element, given: JsonObject, anchor: str) -> None:
    product = add(add(parent, "consumable"), "manufacturedProduct", classCode="MANU")
    add_templates(product, INFORMATION)
    material = add(product, "manufacturedMaterial")
    add_code(material, "code", given.get("vaccineCode"), prefer=(CVX,), anchor=cell(anchor))
    if given.get("lotNumber"):
        add(material, "lotNumberText", given["lotNumber"])
    maker = name_of(record, given.get("manufacturer"), given)
    if maker:
        add(add(product, "manufacturerOrganization"), "name", maker)


def _add_refusal(record: DocumentRecord, parent: Element, given: JsonObject) -> None:
    made = add_related(parent, "RSON", "observation", "OBS")
    add_templates(made, REFUSAL)
    record.add_ids(made, given, "refusal")
    add_code(made, "code", given.get("statusReason"), prefer=(ACT_REASON,))
    add(made, "statusCode", code="completed")


IMMUNIZATIONS: Final = SectionWriter(
    "immunizations",
    loinc("11369-6", "History of immunization"),
    "Immunizations",
    (template("2.2.1", "2015-08-01"),),
    ("Vaccine", "Date", "Status", "Lot", "Dose", "Route", "Reason", "Given by"),
    lambda record: record.of_type("Immunization"),
    _write,
)
