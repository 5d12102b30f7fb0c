"""What HL7's JSON Schemas let pass: empties, two choices of one element, impossible dates, integers with a point."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from engine.fhir.defect import Defect, Kind

Json = Any

CONTAINED: Final = "contained"
# How a choice is named whose type is a date (`onsetDateTime`).
DATED: Final = ("Date", "DateTime", "Instant")
# The elements with a choice of types, in the types that are reached from those kept.
CHOICES: Final = (
    "abatement",
    "age",
    "allowed",
    "asNeeded",
    "author",
    "born",
    "bounds",
    "deceased",
    "detail",
    "doseNumber",
    "due",
    "effective",
    "medication",
    "multipleBirth",
    "occurred",
    "occurrence",
    "onBehalfOf",
    "onset",
    "performed",
    "rate",
    "reported",
    "seriesDoses",
    "start",
    "timing",
    "value",
    "what",
    "who",
)


class Names(NamedTuple):
    """The names of those elements of a version that are dates where they are text, and whole where they are numbers."""

    dated: frozenset[str]
    whole: frozenset[str]


def beyond(part: Json, path: str, names: Names) -> Iterator[Defect]:
    """Yield the faults of a resource, or of a part of one, that no schema tells; contained ones are not looked into."""
    if isinstance(part, dict):
        if not part:
            yield Defect(path, Kind.STRUCTURE, "an empty object")
        yield from _choices(part, path)
        for key, value in part.items():
            if isinstance(value, dict | list) and (key != CONTAINED or not value):
                yield from beyond(value, f"{path}.{key}", names)
            if isinstance(value, list):
                faults = (fault for item in value if (fault := _fault(key, item, names)))
                fault = next(faults, "")
            else:
                fault = _fault(key, value, names)
            if fault:
                yield Defect(f"{path}.{key}", Kind.VALUE, fault)
    elif isinstance(part, list):
        if not part:
            yield Defect(path, Kind.STRUCTURE, "an empty list")
        for index, item in enumerate(part):
            if isinstance(item, dict | list):
                yield from beyond(item, f"{path}[{index}]", names)


def valid_date(text: str) -> bool:
    """Say whether the date part of a FHIR date or dateTime (YYYY, YYYY-MM, YYYY-MM-DD...) is in the calendar."""
    parts = text[:10].split("-")
    try:
        date(*(int(part) for part in [*parts, "1", "1"][:3]))
    except ValueError:
        return False
    return True


def _fault(key: str, value: Json, names: Names) -> str:
    if isinstance(value, str):
        wrong = (key in names.dated or key.endswith(DATED)) and value[:4].isdigit() and not valid_date(value)
        return "the date is not in the calendar" if wrong else ""
    wrong = isinstance(value, Decimal | float) and key in names.whole
    return "a whole number of 32 bits is written in digits alone" if wrong else ""


def _choices(part: dict[str, Json], path: str) -> Iterator[Defect]:
    chosen = [key for key in part if key.startswith(CHOICES)]
    if len(chosen) < 2:
        return
    for choice in CHOICES:
        given = [key for key in chosen if key.startswith(choice) and key[len(choice) :][:1].isupper()]
        if len(given) > 1:
            yield Defect(f"{path}.{choice}[x]", Kind.STRUCTURE, "more than one choice of the element")
