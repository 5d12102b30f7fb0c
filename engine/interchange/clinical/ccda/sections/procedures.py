"""Procedures: done, under way, and those that were not done."""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import SNOMED, add_code, label, labels, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_performer, name_of
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_entry, add_notes, cell
from engine.interchange.clinical.ccda.sections.medications import add_reasons
from engine.interchange.clinical.ccda.times import add_when, span_of

ACTIVITY: Final = template("4.14", "2014-06-09")
STATUSES: Final[Mapping[str, str]] = {
    "completed": "completed",
    "preparation": "active",
    "in-progress": "active",
    "on-hold": "active",
    "stopped": "aborted",
    "not-done": "completed",
}


def _write(record: DocumentRecord, section: Element, table: SectionTable, procedure: JsonObject) -> None:
    performers = [one["actor"] for one in procedure.get("performer") or () if one.get("actor")]
    anchor = table.row(
        label(procedure.get("code")),
        record.when(procedure, "performed") or procedure.get("performedString", ""),
        procedure.get("status", ""),
        labels(procedure.get("bodySite")),
        labels(procedure.get("reasonCode")),
        label(procedure.get("outcome")),
        ", ".join(name_of(record, one, procedure) for one in performers),
    )
    made = add_entry(section, "procedure", "PROC")
    if procedure.get("status") == "not-done":
        made.set("negationInd", "true")
    add_templates(made, ACTIVITY)
    record.add_ids(made, procedure)
    add_code(made, "code", procedure.get("code"), prefer=(SNOMED,), anchor=cell(anchor))
    add_reference(made, anchor)
    status = STATUSES.get(procedure.get("status", ""))
    add(made, "statusCode", code=status) if status else add(made, "statusCode", nullFlavor="UNK")
    add_when(made, "effectiveTime", span_of(procedure, "performed"), record.zone)
    for site in procedure.get("bodySite") or ():
        add_code(made, "targetSiteCode", site, prefer=(SNOMED,))
    for performer in performers:
        add_performer(made, record, performer, procedure)
    add_reasons(record, made, procedure)
    add_notes(made, procedure, label(procedure.get("code")), table)


PROCEDURES: Final = SectionWriter(
    "procedures",
    loinc("47519-4", "History of procedures"),
    "Procedures",
    (template("2.7.1", "2014-06-09"),),
    ("Procedure", "Date", "Status", "Site", "Reason", "Outcome", "Performed by"),
    lambda record: record.of_type("Procedure"),
    _write,
)
