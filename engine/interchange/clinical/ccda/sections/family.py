"""Family history: a relative and what that relative had."""

from collections.abc import Mapping
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import ASSERTION, SNOMED, add_code, label, loinc, snomed
from engine.interchange.clinical.ccda.element import (
    Element,
    add,
    add_extension,
    add_reference,
    add_templates,
    add_value,
    template,
)
from engine.interchange.clinical.ccda.quantities import add_measure, shown_quantity
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import SectionTable, SectionWriter, add_entry, add_related, cell
from engine.interchange.clinical.ccda.times import value_of

ORGANIZER: Final = template("4.45", "2015-08-01")
OBSERVATION: Final = template("4.46", "2015-08-01")
AGE: Final = template("4.31")
DEATH: Final = template("4.47")
ROLES: Final = "2.16.840.1.113883.5.111"
CONDITION: Final = (snomed("64572001", "Condition"), loinc("75315-2", "Condition family member"))
SEXES: Final[Mapping[str, str]] = {"female": "F", "male": "M", "other": "UN"}
GENDER: Final = {"codeSystem": "2.16.840.1.113883.5.1", "codeSystemName": "HL7AdministrativeGender"}


def _write(record: DocumentRecord, section: Element, table: SectionTable, relative: JsonObject) -> None:
    made = add_entry(section, "organizer", "CLUSTER")
    add_templates(made, ORGANIZER)
    record.add_ids(made, relative)
    add(made, "statusCode", code="completed")
    _add_relative(record, made, relative)
    for at, condition in enumerate(relative.get("condition") or ({},)):
        anchor = table.row(
            relative.get("name") or label(relative.get("relationship")),
            label(relative.get("relationship")),
            label(condition.get("code")),
            shown_quantity(condition.get("onsetAge")) or condition.get("onsetString", ""),
            label(condition.get("outcome")) or _died(relative),
        )
        _add_condition(record, add(made, "component"), relative, at, condition, anchor)


def _died(relative: JsonObject) -> str:
    """Return that a relative died, and when, as people read it."""
    if relative.get("deceasedBoolean") is False:
        return ""
    cause = (
        relative.get("deceasedString") or relative.get("deceasedDate") or shown_quantity(relative.get("deceasedAge"))
    )
    return f"died: {cause}" if cause else "died" if relative.get("deceasedBoolean") else ""


def _add_relative(record: DocumentRecord, parent: Element, relative: JsonObject) -> None:
    subject = add(add(parent, "subject"), "relatedSubject", classCode="PRS")
    add_code(subject, "code", relative.get("relationship"), prefer=(ROLES,))
    person = add(subject, "subject")
    if relative.get("name"):
        add(person, "name", relative["name"])
    codes = [coding.get("code", "") for coding in (relative.get("sex") or {}).get("coding") or ()]
    sex = next((SEXES[code] for code in codes if code in SEXES), "")
    if sex:
        add(person, "administrativeGenderCode", code=sex, **GENDER)
    else:
        add(person, "administrativeGenderCode", nullFlavor="UNK")
    if relative.get("bornDate"):
        add(person, "birthTime", value=value_of(relative["bornDate"], record.zone))
    if _died(relative):
        add_extension(person, "deceasedInd", value="true")


def _add_condition(
    record: DocumentRecord, parent: Element, relative: JsonObject, at: int, condition: JsonObject, anchor: str
) -> None:
    made = add(parent, "observation", classCode="OBS", moodCode="EVN")
    add_templates(made, OBSERVATION)
    record.add_ids(made, relative, f"condition-{at}")
    code, translation = CONDITION
    add(add(made, "code", **code), "translation", **translation)
    add_reference(made, anchor)
    add(made, "statusCode", code="completed")
    add_code(made, "value", condition.get("code"), prefer=(SNOMED,), data_type="CD", anchor=cell(anchor, 3))
    if (condition.get("onsetAge") or {}).get("value") is not None:
        _add_age(add_related(made, "SUBJ", "observation", "OBS", inverted=True), condition["onsetAge"])
    if condition.get("contributedToDeath"):
        death = add_related(made, "CAUS", "observation", "OBS")
        add_templates(death, DEATH)
        add(death, "code", **ASSERTION)
        add(death, "statusCode", code="completed")
        add_value(death, "CD", **snomed("419099009", "Dead"))


def _add_age(made: Element, age: JsonObject) -> None:
    add_templates(made, AGE)
    add(made, "code", **snomed("445518008", "Age at onset"))
    add(made, "statusCode", code="completed")
    add_measure(made, "value", age, data_type="PQ", unit="a")


FAMILY_HISTORY: Final = SectionWriter(
    "family",
    loinc("10157-6", "Family history"),
    "Family History",
    (template("2.15", "2015-08-01"),),
    ("Relative", "Relationship", "Condition", "Age at onset", "Outcome"),
    lambda record: record.of_type("FamilyMemberHistory"),
    _write,
)
