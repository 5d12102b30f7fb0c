"""Which function reads an entry: found by the entry's template, else by its section."""

from collections.abc import Callable, Iterator
from typing import Final

from engine.interchange.clinical.ccda.reading.allergies import read_allergies
from engine.interchange.clinical.ccda.reading.chart import ReadChart
from engine.interchange.clinical.ccda.reading.element import Element, every, is_null, said, tag, templates
from engine.interchange.clinical.ccda.reading.encounters import read_encounter
from engine.interchange.clinical.ccda.reading.medications import (
    read_immunization,
    read_medication,
    read_planned_medication,
)
from engine.interchange.clinical.ccda.reading.observations import read_family, read_result, read_social, read_vitals
from engine.interchange.clinical.ccda.reading.plans import read_coverage, read_goal, read_planned_act
from engine.interchange.clinical.ccda.reading.problems import read_diagnoses, read_problems
from engine.interchange.clinical.ccda.reading.procedures import read_plan, read_procedure

Reader = Callable[[ReadChart, Element], object]

CCDA: Final = "2.16.840.1.113883.10.20.22.4."
# Templates of entries, of any version, by the last arc of their OID.
TEMPLATES: Final[dict[str, Reader]] = {
    f"{CCDA}{arc}": reader
    for arc, reader in (
        ("30", read_allergies),
        ("7", read_allergies),
        ("3", read_problems),
        ("4", read_problems),
        ("33", read_diagnoses),
        ("34", read_diagnoses),
        ("80", read_diagnoses),
        ("16", read_medication),
        ("35", read_medication),
        ("36", read_medication),
        ("42", read_planned_medication),
        ("120", read_planned_medication),
        ("1", read_result),
        ("2", read_result),
        ("26", read_vitals),
        ("27", read_vitals),
        ("12", read_procedure),
        ("13", read_procedure),
        ("14", read_procedure),
        ("39", read_planned_act),
        ("40", read_encounter),
        ("41", read_plan),
        ("44", read_plan),
        ("52", read_immunization),
        ("49", read_encounter),
        ("38", read_social),
        ("78", read_social),
        ("85", read_social),
        ("45", read_family),
        ("121", read_goal),
        ("60", read_coverage),
        ("61", read_coverage),
    )
}
# LOINC codes of sections, and who reads those of their entries that have no template of the above.
SECTIONS: Final[dict[str, Reader]] = {
    "48765-2": read_allergies,
    "10160-0": read_medication,
    "10183-2": read_medication,
    "75311-1": read_medication,
    "42346-7": read_medication,
    "29549-3": read_medication,
    "11450-4": read_problems,
    "11348-0": read_problems,
    "46241-6": read_diagnoses,
    "11535-2": read_diagnoses,
    "30954-2": read_result,
    "8716-3": read_vitals,
    "47519-4": read_procedure,
    "11369-6": read_immunization,
    "46240-8": read_encounter,
    "29762-2": read_social,
    "10157-6": read_family,
    "61146-7": read_goal,
    "48768-6": read_coverage,
}
# Templates of sections, for those without a code of their own.
SECTION_TEMPLATES: Final = {
    f"2.16.840.1.113883.10.20.22.2.{arc}": code
    for arc, code in (
        ("6", "48765-2"),
        ("6.1", "48765-2"),
        ("1", "10160-0"),
        ("1.1", "10160-0"),
        ("11", "10183-2"),
        ("11.1", "10183-2"),
        ("38", "29549-3"),
        ("44", "42346-7"),
        ("5", "11450-4"),
        ("5.1", "11450-4"),
        ("3", "30954-2"),
        ("3.1", "30954-2"),
        ("4", "8716-3"),
        ("4.1", "8716-3"),
        ("7", "47519-4"),
        ("7.1", "47519-4"),
        ("2", "11369-6"),
        ("2.1", "11369-6"),
        ("22", "46240-8"),
        ("22.1", "46240-8"),
        ("17", "29762-2"),
        ("15", "10157-6"),
        ("60", "61146-7"),
        ("10", "18776-5"),
        ("18", "48768-6"),
    )
}
PLAN: Final = "18776-5"
# In a plan, the element's tag selects the reader of an entry without a template.
PLANNED: Final[dict[str, Reader]] = {
    tag("substanceAdministration"): read_planned_medication,
    **{tag(name): read_plan for name in ("procedure", "observation")},
    tag("act"): read_planned_act,
    tag("encounter"): read_encounter,
}
# What a section's reader can read.
STATEMENTS: Final[dict[Reader, frozenset[str]]] = {
    read_medication: frozenset({tag("substanceAdministration"), tag("act")}),
    read_immunization: frozenset({tag("substanceAdministration")}),
    read_encounter: frozenset({tag("encounter")}),
    read_family: frozenset({tag("organizer")}),
    read_coverage: frozenset({tag("act")}),
    read_goal: frozenset({tag("observation")}),
    read_social: frozenset({tag("observation"), tag("organizer")}),
    read_allergies: frozenset({tag("act"), tag("observation")}),
    read_problems: frozenset({tag("act"), tag("observation")}),
    read_diagnoses: frozenset({tag("act")}),
    read_result: frozenset({tag("organizer"), tag("observation")}),
    read_vitals: frozenset({tag("organizer"), tag("observation")}),
    read_procedure: frozenset({tag("procedure"), tag("act"), tag("observation")}),
}


def code_of(section: Element) -> str:
    """Return the LOINC code of a section: its own, else that of its template; '' for none."""
    own = [said(section, "code", "code"), *(said(one) for one in every(section, "code/translation"))]
    known = [one for one in own if one in SECTIONS or one == PLAN]
    by_template = [SECTION_TEMPLATES[template] for template in templates(section) if template in SECTION_TEMPLATES]
    return next(iter([*known, *by_template, *filter(None, own)]), "")


def read_entries(chart: ReadChart, section: Element, code: str) -> int:
    """Keep what the entries of a section say; return how many of them said nothing that is kept."""
    unread = 0
    for statement in _statements(section):
        before = chart.facts
        reader = _reader(statement, code)
        if reader is not None and not is_null(statement):
            reader(chart, statement)
        unread += chart.facts == before
    return unread


def _statements(section: Element) -> Iterator[Element]:
    """Yield the statements of the entries of a section, not of the sections in it."""
    for entry in every(section, "entry"):
        yield from (part for part in entry if len(part))


def _reader(statement: Element, code: str) -> Reader | None:
    found = next((TEMPLATES[template] for template in templates(statement) if template in TEMPLATES), None)
    if found is not None:
        return found
    if code == PLAN:
        return PLANNED.get(statement.tag)
    reader = SECTIONS.get(code)
    return reader if reader is not None and statement.tag in STATEMENTS[reader] else None
