"""Social history: smoking status, tobacco use, birth sex, and what else was observed of a patient's life."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import LOINC, SNOMED, add_code, coded, is_loinc, label, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, add_value, template
from engine.interchange.clinical.ccda.quantities import add_observed, shown_value
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_entry, add_notes, cell
from engine.interchange.clinical.ccda.sections.observations import BIRTH_SEX, SMOKING, TOBACCO, is_social, when
from engine.interchange.clinical.ccda.times import add_interval, add_time, add_when, readable_span

SMOKING_STATUS: Final = template("4.78", "2014-06-09")
TOBACCO_USE: Final = template("4.85", "2014-06-09")
BIRTH_SEX_OBSERVATION: Final = template("4.200", "2016-06-01", former=False)
SOCIAL: Final = template("4.38", "2015-08-01")
BIRTH_SEX_URL: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-birthsex"
SEXES: Final[Mapping[str, str]] = {"F": "Female", "M": "Male"}
GENDER: Final = "2.16.840.1.113883.5.1"


def birth_sex(patient: JsonObject) -> str:
    """Return the birth sex of a Patient (`F`, `M`, `UNK`), '' for none."""
    return next(
        (one.get("valueCode", "") for one in patient.get("extension") or () if one.get("url") == BIRTH_SEX_URL), ""
    )


def _items(record: DocumentRecord) -> Sequence[JsonObject]:
    found = [observation for observation in record.of_type("Observation") if is_social(observation)]
    return [record.patient, *found] if birth_sex(record.patient) else found


def _write(record: DocumentRecord, section: Element, table: SectionTable, item: JsonObject) -> None:
    if item["resourceType"] == "Patient":
        _add_birth_sex(record, section, table, item)
        return
    shown = shown_value(item, record.zone)
    parts = "; ".join(
        f"{label(one.get('code'))}: {shown_value(one, record.zone)}" for one in item.get("component") or ()
    )
    anchor = table.row(label(item.get("code")), shown or parts, readable_span(when(item), record.zone))
    made = add_entry(section, "observation", "OBS")
    value = item.get("valueCodeableConcept")
    if is_loinc(item.get("code"), SMOKING) and coded(value):
        _fill(record, made, item, anchor, SMOKING_STATUS)
        add_time(made, "effectiveTime", when(item)[0], record.zone)
        add_code(made, "value", value, prefer=(SNOMED,), data_type="CD")
    elif is_loinc(item.get("code"), TOBACCO) and value:
        _fill(record, made, item, anchor, TOBACCO_USE)
        add_interval(made, "effectiveTime", when(item), record.zone)
        add_code(made, "value", value, prefer=(SNOMED,), data_type="CD", anchor=cell(anchor, 2))
    else:
        _fill(record, made, item, anchor, SOCIAL)
        add_when(made, "effectiveTime", when(item), record.zone)
        if shown or not parts:
            add_observed(made, item, record.zone, cell(anchor, 2))
        else:
            add_value(made, "ST").text = parts
    add_notes(made, item, label(item.get("code")), table)


def _fill(record: DocumentRecord, made: Element, item: JsonObject, anchor: str, kind: Any) -> None:
    """Fill an observation up to its time; its code is of LOINC, or a translation of a null flavor."""
    add_templates(made, kind)
    record.add_ids(made, item)
    code = add_code(made, "code", item.get("code"), demand=LOINC, anchor=cell(anchor))
    if code.get("nullFlavor") and code.find("{*}translation") is None:
        add(code, "translation", nullFlavor="UNK")
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")


def _add_birth_sex(record: DocumentRecord, section: Element, table: SectionTable, patient: JsonObject) -> None:
    sex = birth_sex(patient)
    anchor = table.row("Birth sex", SEXES.get(sex, "Unknown"), record.readable(patient.get("birthDate")))
    made = add_entry(section, "observation", "OBS")
    add_templates(made, BIRTH_SEX_OBSERVATION)
    record.add_ids(made, patient, "birth-sex")
    add(made, "code", **loinc(BIRTH_SEX, "Sex assigned at birth"))
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    add_time(made, "effectiveTime", patient.get("birthDate", ""), record.zone)
    if sex in SEXES:
        add_value(
            made, "CD", code=sex, codeSystem=GENDER, codeSystemName="HL7AdministrativeGender", displayName=SEXES[sex]
        )
    else:
        add_value(made, "CD", nullFlavor="UNK")


SOCIAL_HISTORY: Final = SectionWriter(
    "social",
    loinc("29762-2", "Social history"),
    "Social History",
    (template("2.17", "2015-08-01"),),
    ("Observation", "Value", "Date"),
    _items,
    _write,
)
