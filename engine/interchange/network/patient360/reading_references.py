"""References within a Bundle: what they lead to there, and what becomes of those that lead out of it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, resource_types
from engine.fhir.versions.names import r4_name

Resource = JsonObject

URI: Final = "urn:ietf:rfc:3986"
TYPED: Final = re.compile(r"(?:(.*)/)?([A-Z][A-Za-z]{1,60})/([A-Za-z0-9\-.]{1,64})")
# An address that means the same wherever it stands.
ABSOLUTE: Final = re.compile(r"(https?://|urn:)\S+")
VERSION: Final = "/_history/"


class BundleEntry(NamedTuple):
    """A resource of a Bundle in the shape of R4, and its address there (`fullUrl`); '' for none."""

    address: str
    resource: Resource


def addresses(entry: BundleEntry) -> list[str]:
    """Return by what references may name an entry: its address, and its type and id."""
    name, own = entry.resource["resourceType"], entry.resource.get("id", "")
    return [one for one in (_plain(entry.address), f"{name}/{own}" if own else "") if one]


def leads(reference: Json, entry: BundleEntry) -> Iterator[str]:
    """Yield the addresses that a Reference in an entry may mean; one of its own server comes first."""
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
    """Say whether a Reference names a resource of a type, whichever."""
    named = TYPED.fullmatch(_plain(reference.get("reference", ""))) if isinstance(reference, dict) else None
    return named is not None and named[2] == type_name


def relinked(part: Any, entry: BundleEntry, names: Mapping[str, str]) -> Any:
    """Return a part of an entry's resource with every reference that leads to something named called by that name.

    One that leads out of the Bundle becomes a logical reference, which says what the source called it; one into the
    resource itself stays.
    """
    if isinstance(part, list):
        return [relinked(one, entry, names) for one in part]
    if not isinstance(part, dict):
        return part
    made = {name: relinked(value, entry, names) for name, value in part.items()}
    text = part.get("reference")
    if not isinstance(text, str) or text.startswith("#") or is_expression(part):
        return made
    name = next((names[one] for one in leads(part, entry) if one in names), "")
    if name:
        return {**made, "reference": name}
    del made["reference"]
    return {**_logical(text), **made}


def is_expression(part: JsonObject) -> bool:
    """Say whether a part with a `reference` is no Reference but an Expression, whose language must be given."""
    return "language" in part


def _logical(text: str) -> JsonObject:
    """Return a Reference by what its source calls the target: its type, and its address or its type and id."""
    named = TYPED.fullmatch(_plain(text))
    name = r4_name(named[2]) if named else ""
    kind = {"type": name} if name in resource_types(FhirVersion.R4) else {}
    return {**kind, "identifier": {**({"system": URI} if ABSOLUTE.fullmatch(text) else {}), "value": text}}


def _plain(address: str) -> str:
    return address.partition(VERSION)[0]
