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
    if isinstance(part, list):
        yield from _beyond_list(part, path, names)
        return
    if not part:
        yield Defect(path, Kind.STRUCTURE, "an empty object")
    yield from _choices(part, path)
    for key, value in part.items():
        fault = ""
        if isinstance(value, str):
            if key in names.dated or key.endswith(DATED):
                fault = _fault(value)
        elif isinstance(value, dict | list):
            if key != CONTAINED or not value:
                yield from beyond(value, f"{path}.{key}", names)
            if key in names.dated or key in names.whole:
                fault = next(filter(None, map(_fault, value)), "")
        elif key in names.whole:
            fault = _fault(value)
        if fault:
            yield Defect(f"{path}.{key}", Kind.VALUE, fault)


def _beyond_list(items: list[Json], path: str, names: Names) -> Iterator[Defect]:
    if not items:
        yield Defect(path, Kind.STRUCTURE, "an empty list")
    for index, item in enumerate(items):
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


def _fault(value: Json) -> str:
    """Return what is wrong with the value of a date or a whole number; '' for nothing, and for another shape."""
    if isinstance(value, str):
        return "the date is not in the calendar" if value[:4].isdigit() and not valid_date(value) else ""
    return "a whole number of 32 bits is written in digits alone" if isinstance(value, Decimal | float) else ""


def _choices(part: dict[str, Json], path: str) -> Iterator[Defect]:
    chosen = [key for key in part if key.startswith(CHOICES)]
    if len(chosen) < 2:
        return
    for choice in CHOICES:
        given = [key for key in chosen if key.startswith(choice) and key[len(choice) :][:1].isupper()]
        if len(given) > 1:
            yield Defect(f"{path}.{choice}[x]", Kind.STRUCTURE, "more than one choice of the element")
