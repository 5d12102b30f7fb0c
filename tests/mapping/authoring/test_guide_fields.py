"""What the guide maps is read by the shipped mapping, field by field and component by component, or has a reason.

The reasons stand in `mappings/README.md`.
"""

import re
from functools import partial
from importlib import import_module
from itertools import chain, takewhile

from engine.config.shipped import shipped
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.survey import Survey
from engine.mapping.authoring.trace import Trace, TracingCompiler
from engine.mapping.compile import MappingSource, compile_mapping
from engine.mapping.files.field import FIELD
from engine.mapping.files.reference import segments

# HL7 v2-to-FHIR Implementation Guide 1.0.0: the fields with a row in a segment map, of the segments of ADT.
GUIDE = {
    "AL1": (2, 3, 4, 5, 6),
    "DG1": (3, 4, 5, 6, 15, 16, 19, 20, 21, 22),
    "EVN": (2, 4, 5, 6, 7),
    "IAM": (2, 3, 4, 5, 7, 11, 12, 13, 14, 15, 17, 27),
    "IN1": (2, 4, 5, 10, 11, 12, 13, 15, 16, 17, 49),
    "IN3": (21,),
    "MRG": (3,),
    "MSH": (3, 4, 5, 6, 7, 8, 9, 10, 11, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27),
    "NK1": (2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 16, 20, 30, 31, 32, 33, 37, 40, 41),
    "OBX": (3, 4, 5, 6, 7, 8, 10, 11, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 29, 30, 33),
    "PD1": (3, 4, 6, 7, 14),
    "PID": (*range(2, 32), 33, 34, 35, 36, 39, 40),
    "PR1": (3, 4, 5, 6, 7, 8, 11, 12, 15, 16, 19, 23, 25),
    "PRT": (2, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 23, 24),
    "PV1": (*range(2, 12), 13, 14, 15, 16, 17, 19, 20, 36, 37, 38, 40, 42, 43, 44, 45, 50, 52, 53, 54),
    "PV2": (1, 3, 7, 8, 9, 10, 11, 12, 13, 21, 22, 25, 38, 40),
    "ROL": (1, *range(3, 15)),
    "SFT": (1, 2, 3, 4, 5, 6),
}
# The components with a row in the map of a data type, as the guide's segment maps name it for most fields of the type.
COMPONENTS = {
    "CNE": range(1, 14),
    "CWE": range(1, 14),
    "CX": range(1, 9),
    "DLD": (1,),
    "DLN": range(1, 4),
    "EI": range(1, 5),
    "HD": range(1, 4),
    "PL": (1, 2, 3, 4, 7, 8, 9, 10, 11),
    "XAD": (1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 13, 14, 19),
    "XCN": (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21),
    "XON": (1, 2, 3, 4, 5, 6, 7, 8, 10),
    "XPN": (1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15),
    "XTN": (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 18),
}
# Where a segment map names another one: CWE[code], CWE[Coding], CWE[Identifier], HD[Location], XON[string], or none.
OTHERS = {
    **dict.fromkeys(("NK1-15", "PID-8"), (1, 4)),
    **dict.fromkeys(("PV1-2", "PV2-38"), (1, 2, 3, 7)),
    **dict.fromkeys(("IN1-2", "OBX-15"), (1, 2, 3, 4, 5, 6, 10, 11, 13)),
    **dict.fromkeys(("IN1-16", "OBX-6", "PD1-7", "PID-6", "PID-10", "PID-22"), ()),
    "EVN-7": (1, 2),
    "PD1-14": (1,),
}
# What fields were that a later version withdrew.
WITHDRAWN = {"PD1-4": "XCN", "PID-2": "CX", "PID-9": "XPN", "PID-20": "DLN"}
TYPES = (
    "Encounter",
    "RelatedPerson",
    "Coverage",
    "AllergyIntolerance",
    "Condition",
    "Procedure",
    "Observation",
    "Account",
    "PractitionerRole",
    "CareTeam",
    "EpisodeOfCare",
    "Flag",
    "Provenance",
)
MAPPED = {f"{segment}-{number}" for segment, numbers in GUIDE.items() for number in numbers}
README = (shipped("mappings") / "README.md").read_text("utf-8")


def texts(value):
    """Every text in an authored value."""
    if isinstance(value, dict):
        return chain(value, *(texts(part) for part in value.values()))
    return chain(*(texts(part) for part in value)) if isinstance(value, list) else iter([str(value)])


def read(source: MappingSource) -> set[str]:
    """Every field that a shipped file names."""
    found = (FIELD.finditer(text) for one in source.documents.everything() for text in texts(one.value))
    return {f"{match[1]}-{match[2]}" for match in chain(*found)}


def table(head: str) -> list[list[str]]:
    """The rows of one of the two tables of the README, by the head of its first column."""
    lines = (
        README.split("## What the guide maps and we do not")[1].split("## ")[0].split(f"| {head} |")[1].splitlines()[2:]
    )
    rows = list(takewhile(lambda line: line.startswith("| "), lines))
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in rows]


def reasoned() -> set[str]:
    """Every field with a reason."""
    rows = [row[0] for row in table("Fields")]
    return {match.group() for row in rows for match in re.finditer(r"\b[A-Z][A-Z0-9]{2}-\d+", row)}


def test_every_field_of_the_guide(source: MappingSource) -> None:
    """None is left out without a reason."""
    assert len(MAPPED) == 236
    assert sorted(MAPPED - read(source) - reasoned()) == []


def test_reasons_are_for_fields_of_the_guide(source: MappingSource) -> None:
    """A reason is for a field that the guide maps; one that a file reads after all is in part of its maps only."""
    assert sorted(reasoned() - MAPPED) == []
    in_part = {"MSH-3", "NK1-31", "NK1-41"}
    assert sorted(reasoned() & read(source) - in_part) == []


def type_of(path: str) -> str:
    """The data type of a field."""
    segment, number = path.split("-")
    return WITHDRAWN.get(path) or segments()[segment][int(number)].type_


def unread(source: MappingSource) -> set[str]:
    """Every component that the guide maps of a field which is read, and that nothing reads."""
    trace, found = Trace(), set()
    source = sending(source, TYPES)
    compile_mapping(source, channel_of({}), partial(TracingCompiler, trace))
    read_of = Survey(trace, source.documents).read
    for path in MAPPED - reasoned():
        segment, number = path.split("-")
        read_here = read_of[segment, int(number)]
        mapped = OTHERS.get(path, COMPONENTS.get(type_of(path), ()))
        found |= {f"{path}.{component}" for component in mapped if 0 not in read_here and component not in read_here}
    return found


def with_reason(of: set[str]) -> set[str]:
    """Which of these components have a reason: a row's, in the fields that it names or in all of their type."""
    found = set()
    for components, fields, _ in table("Components"):
        type_ = components.partition(".")[0]
        spans = re.findall(rf"{type_}\.(\d+)(?: to {type_}\.(\d+))?", components)
        numbers = {number for first, last in spans for number in range(int(first), int(last or first) + 1)}
        places = [one.rpartition(".")[::2] for one in of]
        row = {(place, number) for place, number in places if int(number) in numbers and _is_of(place, fields)}
        named = {place for place, _ in row}
        assert row, f"{components} of {fields}: a reason for nothing"
        assert fields.startswith("all ") or named == set(fields.split(", "))
        found |= {f"{place}.{number}" for place, number in row}
    return found


def _is_of(place: str, fields: str) -> bool:
    return fields == f"all {type_of(place)}" or place in fields.split(", ")


def test_every_component_of_the_guide(source: MappingSource) -> None:
    """None is left out without a reason, and no reason is for one that is read."""
    found = unread(source)
    assert sorted(found - with_reason(found)) == []


def test_what_was_corrected_by_hand() -> None:
    """PR1-8, 11 and 12 are what hl7apy says of 2.5.1, the last version that has them."""
    fields = import_module("hl7apy.v2_5_1.fields").FIELDS
    for number in (8, 11, 12):
        ours = segments()["PR1"][number]
        assert (ours.type_, ours.repeats) == (fields[f"PR1_{number}"][2], True)
