"""References within a Bundle: resolves those to its entries, and makes the others logical references."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, resource_types
from engine.fhir.versions.names import r4_name

Resource = JsonObject

URI: Final = "urn:ietf:rfc:3986"
TYPED: Final = re.compile(r"(?:(.*)/)?([A-Z][A-Za-z]{1,60})/([A-Za-z0-9\-.]{1,64})")
# An absolute address.
ABSOLUTE: Final = re.compile(r"(https?://|urn:)\S+")
VERSION: Final = "/_history/"


class BundleEntry(NamedTuple):
    """A resource of a Bundle in the shape of R4, and its address there (`fullUrl`); '' for none."""

    address: str
    resource: Resource


def addresses(entry: BundleEntry) -> list[str]:
    """Return the addresses by which references may name an entry: its `fullUrl`, and `Type/id`."""
    name, own = entry.resource["resourceType"], entry.resource.get("id", "")
    return [address for address in (_plain(entry.address), f"{name}/{own}" if own else "") if address]


def leads(reference: Json, entry: BundleEntry) -> Iterator[str]:
    """Yield the addresses that a Reference in an entry may mean; the one on the entry's server comes first."""
    text = _plain(reference.get("reference", "")) if isinstance(reference, dict) else ""
    named = TYPED.fullmatch(text)
    if named is None or named[1] is not None:
        yield text
        return
    own = TYPED.fullmatch(_plain(entry.address))
    if own is not None and own[1] is not None:
        yield f"{own[1]}/{text}"
    yield f"{r4_name(named[2])}/{named[3]}"


def names_a(type_name: str, reference: Json) -> bool:
    """True if a Reference names a resource of this type."""
    named = TYPED.fullmatch(_plain(reference.get("reference", ""))) if isinstance(reference, dict) else None
    return named is not None and named[2] == type_name


def relinked(part: Any, entry: BundleEntry, names: Mapping[str, str]) -> Any:
    """Return a part of an entry's resource with every reference to a named address replaced by its name.

    A reference out of the Bundle becomes a logical reference with the source's address; one into the resource itself
    stays.
    """
    if isinstance(part, list):
        return [relinked(one, entry, names) for one in part]
    if not isinstance(part, dict):
        return part
    result = {name: relinked(value, entry, names) for name, value in part.items()}
    text = part.get("reference")
    if not isinstance(text, str) or text.startswith("#") or is_expression(part):
        return result
    name = next((names[one] for one in leads(part, entry) if one in names), "")
    if name:
        return {**result, "reference": name}
    del result["reference"]
    return {**_logical(text), **result}


def is_expression(part: JsonObject) -> bool:
    """True if a part with a `reference` is an Expression, which has a language, and no Reference."""
    return "language" in part


def _logical(text: str) -> JsonObject:
    """Return a logical Reference: the type of the target, and its address at the source as identifier."""
    named = TYPED.fullmatch(_plain(text))
    name = r4_name(named[2]) if named else ""
    kind = {"type": name} if name in resource_types(FhirVersion.R4) else {}
    return {**kind, "identifier": {**({"system": URI} if ABSOLUTE.fullmatch(text) else {}), "value": text}}


def _plain(address: str) -> str:
    return address.partition(VERSION)[0]
