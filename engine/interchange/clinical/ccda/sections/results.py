"""Results: DiagnosticReport with its observations as an organizer, and observations that no report names."""

from collections.abc import Iterator, Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.codes import LOINC, add_code, label, labels, loinc
from engine.interchange.clinical.ccda.element import Element, add, add_reference, add_templates, add_value, template
from engine.interchange.clinical.ccda.people import add_author
from engine.interchange.clinical.ccda.quantities import shown_value
from engine.interchange.clinical.ccda.record import DocumentRecord
from engine.interchange.clinical.ccda.section import (
    SectionTable,
    SectionWriter,
    add_comment,
    add_entry,
    add_notes,
    cell,
)
from engine.interchange.clinical.ccda.sections.observations import (
    RESULT,
    STATUSES,
    add_reference_range,
    add_result,
    is_social,
    is_vital,
    parts_of,
    shown_bounds,
    when,
)
from engine.interchange.clinical.ccda.times import add_interval, add_when, readable_span

# The head of a group (a report, a panel, or a single observation), and its observations.
Group = tuple[JsonObject, list[JsonObject]]

ORGANIZER: Final = template("4.1", "2015-08-01")


def _groups(record: DocumentRecord) -> Sequence[Group]:
    shown = {
        f"Observation/{observation.get('id', '')}": observation
        for observation in record.of_type("Observation")
        if not is_social(observation) and not is_vital(observation)
    }
    found: list[Group] = []
    for report in record.of_type("DiagnosticReport"):
        found.append((report, list(_taken(shown, report.get("result")))))
    for name, one in list(shown.items()):
        if name in shown and one.get("hasMember"):
            members = list(_taken(shown, one["hasMember"]))
            own = [one] if any(key.startswith("value") for key in one) else []
            shown.pop(name, None)
            # A panel whose members are vital signs is an organizer in that section.
            if own or members:
                found.append((one, [*own, *members]))
    return [*found, *((one, [one]) for one in shown.values())]


def _taken(shown: JsonObject, references: list[JsonObject] | None) -> Iterator[JsonObject]:
    """Yield the observations that references lead to, and the members of these; each is taken once."""
    for reference in references or ():
        one = shown.pop(reference.get("reference", ""), None)
        if one is not None:
            if not one.get("hasMember") or any(key.startswith("value") for key in one):
                yield one
            yield from _taken(shown, one.get("hasMember"))


def _write(record: DocumentRecord, section: Element, table: SectionTable, group: Group) -> None:
    head, observations = group
    made = add_entry(section, "organizer", "BATTERY")
    add_templates(made, ORGANIZER)
    record.add_ids(made, head, "" if head["resourceType"] == "DiagnosticReport" else "results")
    add_code(made, "code", head.get("code"), prefer=(LOINC,))
    add(made, "statusCode", code=STATUSES.get(head.get("status", ""), "held"))
    began, ended = when(head)
    add_interval(made, "effectiveTime", (began, ended or began), record.zone, ended=True)
    if head["resourceType"] == "DiagnosticReport":
        add_author(made, record, next(iter(head.get("performer") or ()), None), head, head.get("issued"))
    for observation in observations:
        for part in parts_of(observation):
            _add_observation(record, made, table, observation, part)
    if not observations:
        _add_bare(record, made, table, head)
    elif head.get("conclusion"):
        anchor = table.row(label(head.get("code")), head["conclusion"], "", "", readable_span(when(head), record.zone))
        comment = add(add(made, "component"), "act", classCode="ACT", moodCode="EVN")
        add_comment(comment, cell(anchor, 2))


def _add_observation(
    record: DocumentRecord, organizer: Element, table: SectionTable, one: JsonObject, part: JsonObject
) -> None:
    anchor = table.row(
        label(part.get("code")),
        shown_value(part, record.zone),
        labels(part.get("interpretation")),
        shown_bounds(part),
        readable_span(when(one), record.zone),
        one.get("status", ""),
    )
    made = add(add(organizer, "component"), "observation", classCode="OBS", moodCode="EVN")
    add_result(record, made, one, part, anchor)
    if part is one:
        add_notes(made, one, label(one.get("code")), table)
    for bounds in part.get("referenceRange") or ():
        add_reference_range(made, bounds)


def _add_bare(record: DocumentRecord, organizer: Element, table: SectionTable, head: JsonObject) -> None:
    """Append the one observation that an organizer must have: the conclusion of a report that names none."""
    text = head.get("conclusion") or labels(head.get("conclusionCode"))
    anchor = table.row(
        label(head.get("code")), text, "", "", readable_span(when(head), record.zone), head.get("status", "")
    )
    made = add(add(organizer, "component"), "observation", classCode="OBS", moodCode="EVN")
    add_templates(made, RESULT)
    record.add_ids(made, head, "conclusion")
    add_code(made, "code", head.get("code"), prefer=(LOINC,), anchor=cell(anchor))
    add_reference(made, anchor)
    add(made, "statusCode", code=STATUSES.get(head.get("status", ""), "held"))
    add_when(made, "effectiveTime", when(head), record.zone)
    if text:
        add_value(made, "ST").text = text
    else:
        add_value(made, "CD", nullFlavor="UNK")


RESULTS: Final = SectionWriter(
    "results",
    loinc("30954-2", "Relevant diagnostic tests and/or laboratory data"),
    "Results",
    (template("2.3.1", "2015-08-01"),),
    ("Test", "Value", "Interpretation", "Reference range", "Date", "Status"),
    _groups,
    _write,
)
