"""The definitions of HL7 v2 and FHIR R4 for checks: fields, components of data types, elements of types."""

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final

from engine.config.model import MOST_NAMED, folded
from engine.fhir.r4 import r4_elements, target_types
from engine.fhir.schema import FhirVersion
from engine.fhir.schema import resource_types as types_of

FIELDS: Final = "fields.tsv"
TYPES: Final = "types.tsv"
REFERENCE: Final = "Reference"
# The places of the complete lists of names, for hints.
GUIDE: Final = "adt-engine help reference"
RESOURCES: Final = "hl7.org/fhir/R4/resourcelist.html"
CODES: Final = "the element's value set at hl7.org/fhir/R4"
STANDARD: Final = "appendix A of HL7 v2.9"


@dataclass(frozen=True, slots=True)
class Hl7Field:
    """One field of a segment: its data type (`-` unknown), whether it repeats, its name, its maximum of components."""

    type_: str
    repeats: bool
    name: str
    most: int


@dataclass(frozen=True, slots=True)
class ReferenceElement:
    """One element of a FHIR type: its type, whether it is a list, and the codes of a required binding.

    `targets`: the types that a reference may name, empty for any. `required`: the type requires it.
    """

    type_: str
    many: bool
    codes: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    required: bool = False


@cache
def segments() -> dict[str, dict[int, Hl7Field]]:
    """Return the fields of every known segment by number."""
    found: dict[str, dict[int, Hl7Field]] = {}
    for segment, number, type_, card, name, most in _rows(FIELDS):
        found.setdefault(segment, {})[int(number)] = Hl7Field(type_, card == "*", name, int(most))
    return found


@cache
def data_types() -> dict[str, int]:
    """Return the number of components of each HL7 data type."""
    return {name: int(count) for name, count, _ in _rows(TYPES)}


def parts(type_: str, component: int) -> int:
    """Return the number of subcomponents of a component of a data type; 0 for none, and if unknown."""
    counts = _parts().get(type_, ())
    return counts[component - 1] if 0 < component <= len(counts) else 0


@cache
def _parts() -> dict[str, tuple[int, ...]]:
    return {name: tuple(int(count) for count in counts.split()) for name, _, counts in _rows(TYPES)}


@cache
def elements() -> dict[str, dict[str, ReferenceElement]]:
    """Return the elements of every type of FHIR R4 that has any: resources, their parts and data types."""
    found = {
        type_: {name: _element(type_, name, *one) for name, one in own.items()} for type_, own in r4_elements().items()
    }
    found["Element"] = {"extension": ReferenceElement("Extension", many=True)}
    return found


def _element(
    holder: str, name: str, type_: str, many: bool, required: bool, codes: frozenset[str] | None
) -> ReferenceElement:
    targets = target_types(FhirVersion.R4, f"{holder}.{name}") if type_ == REFERENCE else frozenset()
    return ReferenceElement(type_, many, codes or frozenset(), targets, required)


def resource_types() -> frozenset[str]:
    """Return the names of the resource types of FHIR R4."""
    return types_of(FhirVersion.R4)


@cache
def type_names() -> dict[str, str]:
    """Return the resource types by their names in event tables: `relatedperson`."""
    return {name.lower(): name for name in resource_types()}


def page_of(type_: str) -> str:
    """Return the page that lists the elements of a type, or of its resource."""
    whole = type_.partition("_")[0]
    page = whole.lower() if whole in resource_types() else "datatypes"
    return f"hl7.org/fhir/R4/{page}.html"


def shown_type(type_: str) -> str:
    """Return a type as FHIR writes it: a part of a resource by its path, `Patient.contact`."""
    whole, *parts = type_.split("_")
    return ".".join((whole, *(part[0].lower() + part[1:] for part in parts)))


def nearest(word: str, words: object, where: str = "") -> str:
    """Return a hint with the nearest known word, or the five most similar ones, and `where` all of them are."""
    names = sorted(str(name) for name in words) if isinstance(words, dict | set | frozenset | list | tuple) else []
    folded_names = {name.casefold(): name for name in names}
    close = [folded_names[one] for one in get_close_matches(word.casefold(), folded_names, n=MOST_NAMED, cutoff=0.5)]
    if close:
        swapped = (one for one in close if sorted(one) == sorted(word))  # PDI is PID rather than PRD
        return f"did you mean {next(swapped, close[0])!r}?"
    return "expected one of " + folded(names, word, where) if names else "leave it out"


def kind_of(value: Any) -> str:
    """Return words for an authored value of the wrong kind."""
    return {dict: "a map", list: "a list", type(None): "nothing"}.get(type(value), repr(value))


def listed(value: Any) -> list[str]:
    """Return the texts of a value that is one text or a list; none for an empty one."""
    return [str(one) for one in value] if isinstance(value, list) else [] if value is None else [str(value)]


def _rows(name: str) -> list[list[str]]:
    text = files("engine.mapping.files").joinpath("reference", name).read_text("utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]
