"""Every field that the guide maps is read by the shipped mapping, or stands with a reason in `mappings/README.md`."""

import re
from importlib import import_module
from itertools import chain

from engine.config.shipped import shipped
from engine.mapping.compile import MappingSource
from engine.mapping.files.document import FIELD
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


def reasoned() -> set[str]:
    """Every field with a reason."""
    table = README.split("## What the guide maps and we do not")[1].split("## ")[0]
    rows = (line.split("|")[1] for line in table.splitlines() if line.startswith("| ") and "-" in line.split("|")[1])
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


def test_what_was_corrected_by_hand() -> None:
    """PR1-8, 11 and 12 are what hl7apy says of 2.5.1, the last version that has them."""
    fields = import_module("hl7apy.v2_5_1.fields").FIELDS
    for number in (8, 11, 12):
        ours = segments()["PR1"][number]
        assert (ours.type_, ours.repeats) == (fields[f"PR1_{number}"][2], True)
