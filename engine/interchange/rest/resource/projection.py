"""A part of a resource where a client asks for no more: `_elements` and `_summary`, on searches and on reads.

What is required, whose record it is, and what changes the meaning of the rest (a status, `doNotPerform`) is never left
out. The part says that it is one (`SUBSETTED`), so that nobody takes it for the whole.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.fhir.schema import REQUIRED_CHOICES, FhirVersion, definitions
from engine.fhir.versions.direction import stem
from engine.fhir.versions.names import name_in
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.rest.resource.summary import SUMMARY
from engine.interchange.store.search.page import Pairs

Keeps = Callable[[str], bool]

ALWAYS: Final = frozenset({"resourceType", "id", "meta", "implicitRules", "modifierExtension"})
# Elements that HL7 marks as modifiers, of whatever type.
MODIFIERS: Final = frozenset(
    {
        *("active", "clinicalStatus", "deceased", "doNotPerform", "intent", "isSubpotent", "lifecycleStatus", "link"),
        *("notDone", "notGiven", "status", "taken", "verificationStatus"),
    }
)
SUMMARIES: Final = ("true", "text", "data", "count", "false")
SUBSETTED: Final = "SUBSETTED"
TAG_SYSTEMS: Final = {
    FhirVersion.R4: "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
    FhirVersion.STU3: "http://hl7.org/fhir/v3/ObservationValue",
}


@dataclass(frozen=True, slots=True)
class Projection:
    """The part of resources that is asked for: a `summary`, or `elements` (names of `type`, by R4's name, only)."""

    summary: str = ""
    elements: frozenset[str] = frozenset()
    type: str = ""

    def shown(self, body: bytes, type_name: str, version: FhirVersion) -> bytes:
        """Return the bytes of a part of a kept resource in a version; of other types, elements leave all as it is."""
        whole = to_version(body, type_name, version)
        if self.elements and type_name != self.type:
            return whole
        resource = read_resource(whole)
        keeps = self._keeps(type_name, version)
        part = {name: value for name, value in resource.items() if keeps(name)}
        meta = part.get("meta", {})
        tag = {"system": TAG_SYSTEMS[version], "code": SUBSETTED}
        part["meta"] = {**meta, "tag": [*(one for one in meta.get("tag", []) if one != tag), tag]}
        return write_json(part)

    def _keeps(self, type_name: str, version: FhirVersion) -> Keeps:
        if self.summary == "data":
            return lambda name: name != "text"
        wanted = MODIFIERS | _required(type_name, version) | self.elements
        if self.summary == "text":
            wanted |= {"text"}
        elif self.summary == "true":
            wanted |= frozenset(SUMMARY[type_name].split())
        return lambda name: name in ALWAYS or base_of(name, type_name, version) in wanted


def read_projection(pairs: Pairs, type_name: str, version: FhirVersion) -> Projection | None:
    """Return the part that parameters ask for, None for the whole; RefusedError for what names no part."""
    given = dict(pairs)
    summary, elements = given.get("_summary"), given.get("_elements")
    if summary is not None and summary not in SUMMARIES:
        raise _bad("_summary", f"_summary is one of {', '.join(SUMMARIES)}.")
    if summary not in {None, "false"} and elements is not None:
        raise _bad("_elements", "Ask for _elements or for a _summary, not for both.")
    if elements is not None:
        return Projection(elements=_named(elements, type_name, version), type=type_name)
    return Projection(summary) if summary in {"true", "text", "data"} else None


def _named(text: str, type_name: str, version: FhirVersion) -> frozenset[str]:
    own = name_in(version, type_name)
    # fhirpy asks for `resourceType` by name, which is no element and always there.
    known = ALWAYS | {base_of(name, type_name, version) for name in definitions(version)[own]}
    names = frozenset(name.removeprefix(f"{own}.") for name in text.split(","))
    if not names <= known:
        raise _bad("_elements", f"_elements is a list of names of elements of {own}.")
    return names


@lru_cache(maxsize=4096)
def base_of(name: str, type_name: str, version: FhirVersion) -> str:
    """Return the name of an element without that of its type (`deceasedBoolean`: deceased), and without `_`."""
    name = name.removeprefix("_")
    known = definitions(version)[name_in(version, type_name)]
    return stem(known, name) if name in known else name


@lru_cache(maxsize=64)
def _required(type_name: str, version: FhirVersion) -> frozenset[str]:
    own = name_in(version, type_name)
    required = {name for name, element in definitions(version)[own].items() if element.required}
    # Whose record it is, is never left out either: neither for people, nor for the access log.
    return frozenset(required | set(REQUIRED_CHOICES[version].get(own, ())) | {KEPT[type_name].patient})


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")
