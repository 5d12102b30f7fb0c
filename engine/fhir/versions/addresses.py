"""Conversion within strings: the addresses of HL7's code systems, and references to types that have two names."""

import csv
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final

from engine.fhir.versions.direction import Direction
from engine.fhir.versions.names import R4_NAMES, STU3_NAMES

# The conversion of a text, given the part that holds it.
Text = Callable[[str, dict[str, Any]], str]

# The prefixes of HL7's tables of v2 and v3, followed by the table's name.
TABLES: Final = (
    ("http://hl7.org/fhir/v2/", "http://terminology.hl7.org/CodeSystem/v2-"),
    ("http://hl7.org/fhir/v3/", "http://terminology.hl7.org/CodeSystem/v3-"),
)
SYSTEMS: Final = "systems.csv"
# The type of a medical record number has one form on both bases: the specification shows it so.
ONE_FORM: Final = ("http://terminology.hl7.org/CodeSystem/v2-0203", "MR")


def _moved() -> dict[str, str]:
    """Return the STU3 addresses of FHIR's own code systems that R4 renamed, with the R4 addresses."""
    text = files("engine.fhir").joinpath("schemas", SYSTEMS).read_text(encoding="utf-8")
    return {row["stu3"]: row["r4"] for row in csv.DictReader(text.splitlines())}


IN_R4: Final = _moved()
IN_STU3: Final = {r4: stu3 for stu3, r4 in IN_R4.items()}


def system_in_r4(system: str) -> str:
    """Return the R4 address of a code system; the search index and search criteria use it too."""
    moved = IN_R4.get(system)
    if moved is not None:
        return moved
    for stu3, r4 in TABLES:
        if system.startswith(stu3):
            return r4 + system[len(stu3) :]
    return system


def system_in_stu3(system: str) -> str:
    """Return the STU3 address of a code system."""
    former = IN_STU3.get(system)
    if former is not None:
        return former
    for stu3, r4 in TABLES:
        if system.startswith(r4):
            return stu3 + system[len(r4) :]
    return system


def _of_coding(turned: Callable[[str], str]) -> Text:
    """Return the conversion of a coding's system; its code may keep it unchanged."""
    return lambda system, coding: system if (system, coding.get("code")) == ONE_FORM else turned(system)


def _alone(turned: Callable[[str], str]) -> Text:
    return lambda text, _: turned(text)


def _renaming(names: dict[str, str]) -> Callable[[str], str]:
    pattern = re.compile(rf"(^|/)({'|'.join(names)})(?=/)")

    def turned(reference: str) -> str:
        return (
            pattern.sub(lambda match: match[1] + names[match[2]], reference) if "Request/" in reference else reference
        )

    return turned


TEXTS: Final[dict[Direction, dict[tuple[str, str], Text]]] = {
    Direction.TO_R4: {
        ("Coding", "system"): _alone(system_in_r4),
        ("Identifier", "system"): _alone(system_in_r4),
        ("Quantity", "system"): _alone(system_in_r4),
        ("Reference", "reference"): _alone(_renaming(R4_NAMES)),
    },
    Direction.TO_STU3: {
        ("Coding", "system"): _of_coding(system_in_stu3),
        ("Identifier", "system"): _alone(system_in_stu3),
        ("Quantity", "system"): _alone(system_in_stu3),
        ("Reference", "reference"): _alone(_renaming(STU3_NAMES)),
    },
}
