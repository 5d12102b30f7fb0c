"""Vital signs: an organizer of what was measured at one time."""

from collections.abc import Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import LOINC, LOINC_URI, add_code, label, labels, loinc, snomed
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, template
from engine.interchange.clinical.ccda.people import add_performer
from engine.interchange.clinical.ccda.quantities import add_measure, shown_value
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_entry, add_notes, cell
from engine.interchange.clinical.ccda.sections.observations import (
    add_interpretations,
    add_reference_range,
    is_social,
    is_vital,
    part_name,
    parts_of,
    when,
)
from engine.interchange.clinical.ccda.times import add_interval, add_time, readable_span

ORGANIZER: Final = template("4.26", "2015-08-01")
SIGN: Final = template("4.27", "2014-06-09")


def _by_time(record: DocumentRecord) -> Sequence[list[JsonObject]]:
    """Return the vital signs that were measured together: at one time, but each with components by itself."""
    found: dict[tuple[str, ...], list[JsonObject]] = {}
    for observation in record.of_type("Observation"):
        if is_vital(observation) and not is_social(observation):
            alone = observation.get("id", "") if observation.get("component") else ""
            found.setdefault((*when(observation), alone), []).append(observation)
    return list(found.values())


def _write(record: DocumentRecord, section: Element, table: SectionTable, signs: list[JsonObject]) -> None:
    made = add_entry(section, "organizer", "CLUSTER")
    add_templates(made, ORGANIZER)
    record.add_ids(made, signs[0], "vitals")
    code = add(made, "code", **snomed("46680005", "Vital signs"))
    add(code, "translation", **loinc("74728-7", "Vital signs"))
    if signs[0].get("component"):
        for coding in (signs[0].get("code") or {}).get("coding") or ():
            if coding.get("code") and coding.get("system") == LOINC_URI:
                add(code, "translation", **loinc(coding["code"], coding.get("display", "")))
    add(made, "statusCode", code="completed")
    began, ended = when(signs[0])
    add_interval(made, "effectiveTime", (began, ended or began), record.zone, ended=True)
    for sign in signs:
        for part in parts_of(sign):
            anchor = table.row(
                label(part.get("code")),
                shown_value(part, record.zone),
                labels(part.get("interpretation")),
                readable_span(when(sign), record.zone),
            )
            one = _add_sign(record, add(made, "component"), sign, part, anchor)
            if part is sign:
                add_notes(one, sign, label(sign.get("code")), table)
            for bounds in part.get("referenceRange") or ():
                add_reference_range(one, bounds)


def _add_sign(record: DocumentRecord, parent: Element, sign: JsonObject, part: JsonObject, anchor: str) -> Element:
    made = add(parent, "observation", classCode="OBS", moodCode="EVN")
    add_templates(made, SIGN)
    record.add_ids(made, sign, part_name(sign, part))
    add_code(made, "code", part.get("code"), prefer=(LOINC,), anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    add_time(made, "effectiveTime", when(sign)[0], record.zone)
    add_measure(made, "value", part.get("valueQuantity"), data_type="PQ")
    add_interpretations(made, part)
    for performer in (sign.get("performer") or ())[:1] if part is sign else ():
        add_performer(made, record, performer, sign)
    return made


VITAL_SIGNS: Final = SectionWriter(
    "vitals",
    loinc("8716-3", "Vital signs"),
    "Vital Signs",
    (template("2.4.1", "2015-08-01"),),
    ("Vital sign", "Value", "Interpretation", "Date"),
    _by_time,
    _write,
)
