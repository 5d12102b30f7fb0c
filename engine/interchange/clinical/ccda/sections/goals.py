"""Goals: the target, its date, and its status."""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import LOINC, SNOMED, add_code, label, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, add_value, template
from engine.interchange.clinical.ccda.people import add_author
from engine.interchange.clinical.ccda.quantities import add_compared, add_range, shown_quantity, shown_range
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_entry, add_notes, cell
from engine.interchange.clinical.ccda.times import add_interval

OBSERVATION: Final = template("4.121")
STATUSES: Final[Mapping[str, str]] = {
    "completed": "completed",
    "cancelled": "cancelled",
    "rejected": "cancelled",
    "on-hold": "held",
}


def _write(record: DocumentRecord, section: Element, table: SectionTable, goal: JsonObject) -> None:
    target: JsonObject = next(iter(goal.get("target") or ()), {})
    anchor = table.row(
        label(goal.get("description")),
        " ".join(filter(None, (label(target.get("measure")), _shown(target)))),
        record.readable(goal.get("startDate")),
        record.readable(target.get("dueDate")),
        goal.get("lifecycleStatus", ""),
        label(goal.get("achievementStatus")),
    )
    made = add_entry(section, "observation", "OBS", "GOL")
    add_templates(made, OBSERVATION)
    record.add_ids(made, goal)
    add_code(made, "code", goal.get("description"), prefer=(LOINC, SNOMED), anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code=STATUSES.get(goal.get("lifecycleStatus", ""), "active"))
    add_interval(made, "effectiveTime", (goal.get("startDate", ""), target.get("dueDate", "")), record.zone)
    _add_target(made, target)
    add_author(made, record, goal.get("expressedBy"), goal, goal.get("statusDate"))
    add_notes(made, goal, label(goal.get("description")), table)


def _shown(target: JsonObject) -> str:
    if target.get("detailRange"):
        return shown_range(target["detailRange"])
    return (
        shown_quantity(target.get("detailQuantity"))
        or label(target.get("detailCodeableConcept"))
        or target.get("detailString", "")
    )


def _add_target(made: Element, target: JsonObject) -> None:
    if target.get("detailQuantity"):
        add_compared(made, target["detailQuantity"])
    elif target.get("detailRange"):
        add_range(made, "value", target["detailRange"], data_type="IVL_PQ")
    elif target.get("detailCodeableConcept"):
        add_code(made, "value", target["detailCodeableConcept"], prefer=(SNOMED,), data_type="CD")
    elif target.get("detailString"):
        add_value(made, "ST").text = target["detailString"]


GOALS: Final = SectionWriter(
    "goals",
    loinc("61146-7", "Goals"),
    "Goals",
    (template("2.60"),),
    ("Goal", "Target", "Since", "Due", "Status", "Achievement"),
    lambda record: record.of_type("Goal"),
    _write,
)
