"""Constraints beyond HL7's JSON Schemas: no empties, one choice of an element, real dates, whole integers."""

from collections.abc import Collection, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from engine.fhir.defect import MOST, Defect, DefectKind
from engine.fhir.json import Json, JsonObject

CONTAINED: Final = "contained"
NESTED: Final = (dict, list)
WHOLE: Final = frozenset({"integer", "positiveInt", "unsignedInt"})
# Suffixes of choices whose type is a date (`onsetDateTime`).
DATED: Final = ("Date", "DateTime", "Instant")
# The elements with a choice of types, in all types reached from the stored ones.
CHOICES: Final = (
    "abatement",
    "additive",
    "age",
    "allowed",
    "answer",
    "asNeeded",
    "author",
    "born",
    "bounds",
    "collected",
    "deceased",
    "detail",
    "doseNumber",
    "due",
    "effective",
    "fastingStatus",
    "initial",
    "medication",
    "multipleBirth",
    "occurred",
    "occurrence",
    "offset",
    "onBehalfOf",
    "onset",
    "performed",
    "product",
    "rate",
    "reason",
    "reported",
    "seriesDoses",
    "start",
    "subject",
    "time",
    "timing",
    "value",
    "what",
    "who",
)


class Names(NamedTuple):
    """The elements of a version whose texts are dates, and those whose numbers are whole.

    `checked`: all of them; `choices`: the choice (`value`) that an element (`valueString`) belongs to.
    """

    dated: frozenset[str]
    whole: frozenset[str]
    checked: frozenset[str]
    choices: Mapping[str, str]


def names_of(types: Mapping[str, Collection[str]], dated: frozenset[str]) -> Names:
    """Return the names of a version from the types of its elements by name and the names that are always dates."""
    choices = {name: choice for name, found in types.items() for choice in CHOICES if chosen(name, choice, found)}
    whole = frozenset(name for name, found in types.items() if WHOLE.intersection(found) and "decimal" not in found)
    dated |= {name for name in types if name.endswith(DATED)}
    return Names(dated, whole, dated | whole, choices)


def chosen(name: str, choice: str, types: Collection[str]) -> bool:
    """True if an element belongs to a choice of the given types: `reasonReference` may, `reasonCode` does not."""
    return name.startswith(choice) and any(name[len(choice) :] == one[0].upper() + one[1:] for one in types)


def extra_defects(resource: JsonObject, name: str, names: Names) -> list[Defect]:
    """Return the first defects that no schema finds; contained resources are not checked."""
    found: list[Defect] = []
    _look(resource, name, names, found)
    return found


def _look(part: Any, path: str, names: Names, found: list[Defect]) -> None:
    if len(found) >= MOST:
        return
    if isinstance(part, list):
        if not part:
            found.append(Defect(path, DefectKind.STRUCTURE, "an empty list"))
        for index, item in enumerate(part):
            if isinstance(item, NESTED):
                _look(item, f"{path}[{index}]", names, found)
        return
    if not part:
        found.append(Defect(path, DefectKind.STRUCTURE, "an empty object"))
    made = [names.choices[key] for key in part if key in names.choices]
    if len(made) != len(set(made)):
        twice = (one for one in CHOICES if made.count(one) > 1)
        found += [
            Defect(f"{path}.{one}[x]", DefectKind.STRUCTURE, "more than one choice of the element") for one in twice
        ]
    for key, value in part.items():
        if isinstance(value, NESTED) and (key != CONTAINED or not value):
            _look(value, f"{path}.{key}", names, found)
        if key in names.checked:
            fault = _fault(key, value, names)
            if fault:
                found.append(Defect(f"{path}.{key}", DefectKind.VALUE, fault))


def valid_date(text: str) -> bool:
    """True if the date part of a FHIR date or dateTime (YYYY, YYYY-MM, YYYY-MM-DD...) is in the calendar."""
    parts = text[:10].split("-")
    try:
        date(*(int(part) for part in [*parts, "1", "1"][:3]))
    except ValueError:
        return False
    return True


def _fault(key: str, value: Json, names: Names) -> str:
    """Return what is wrong with a date or a whole number; '' for a good value, and for one of another shape."""
    if isinstance(value, NESTED):
        return next(filter(None, (_fault(key, one, names) for one in value if not isinstance(one, NESTED))), "")
    if isinstance(value, str):
        wrong = key in names.dated and value[:4].isdigit() and not valid_date(value)
        return "the date is not in the calendar" if wrong else ""
    wrong = key in names.whole and isinstance(value, Decimal | float)
    return "a whole number of 32 bits is written in digits alone" if wrong else ""
