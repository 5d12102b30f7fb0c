"""What the guide maps is read by the shipped mapping, field by field and component by component, or has a reason.

The reasons are in `tests/mapping/differences.yaml`, and on the page mappings/differences.md.
"""

import re
from functools import partial
from importlib import import_module

from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.survey import Survey
from engine.mapping.authoring.trace import Trace, TracingCompiler
from engine.mapping.compile import MappingSource, compile_mapping
from engine.mapping.files.reference import segments
from tests.mapping.differences import data
from tests.mapping.v2_to_fhir import MAPPED, PAGE, readers, written

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
TEXT = PAGE.read_text("utf-8")


def reasoned() -> set[str]:
    """Every field with a reason."""
    return {field for row in data()["fields"] for field in row["of"]}


def test_the_table_is_what_the_files_read(source: MappingSource) -> None:
    """Written anew by `python -m tests.mapping.v2_to_fhir`."""
    assert written(source) == TEXT
    assert "| PID | 2 to 31, 33 to 36, 39, 40 |" in TEXT


def test_every_field_of_the_guide(source: MappingSource) -> None:
    """None is left out without a reason."""
    assert len(MAPPED) == 236
    assert sorted(MAPPED - readers(source).keys() - reasoned()) == []


def test_reasons_are_for_fields_of_the_guide(source: MappingSource) -> None:
    """A reason is for a field that the guide maps; one that a file reads after all is in part of its maps only."""
    assert sorted(reasoned() - MAPPED) == []
    in_part = {"MSH-3", "NK1-31", "NK1-41"}
    assert sorted(reasoned() & readers(source).keys() - in_part) == []


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
    for row in data()["components"]:
        components, fields = row["components"], row["of"]
        type_ = components.partition(".")[0]
        spans = re.findall(rf"{type_}\.(\d+)(?: to {type_}\.(\d+))?", components)
        numbers = {number for first, last in spans for number in range(int(first), int(last or first) + 1)}
        places = [one.rpartition(".")[::2] for one in of]
        reasoned_here = {
            (place, number) for place, number in places if int(number) in numbers and _is_of(place, fields)
        }
        named = {place for place, _ in reasoned_here}
        assert reasoned_here, f"{components} of {fields}: a reason for nothing"
        assert fields.startswith("all ") or named == set(fields.split(", "))
        found |= {f"{place}.{number}" for place, number in reasoned_here}
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
