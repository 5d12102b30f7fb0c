"""Contained resources of types that the other version does not know: they become Basic resources there."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import ElementDefinition, FhirVersion, resource_types
from engine.fhir.versions.direction import address
from engine.fhir.versions.preserve_as_extension import NESTED, PreservedValue, from_extension, to_extension

Part = JsonObject

TYPES: Final = "http://hl7.org/fhir/resource-types"
# Elements of every resource stay in place.
SAME: Final[tuple[str, ...]] = ("id", "meta", "implicitRules", "language", "text")


def as_basic(resource: Part, version: FhirVersion) -> Part:
    """Return a resource as a Basic of the same version that holds its elements as one extension."""
    type_name = resource["resourceType"]
    same = {name: resource[name] for name in SAME if name in resource}
    rest = {name: value for name, value in resource.items() if name not in {"resourceType", *SAME}}
    extension = to_extension(
        address(version, type_name), _whole(type_name), PreservedValue(type_name, rest, None), version
    )
    code = {"coding": [{"system": TYPES, "code": type_name}]}
    return {"resourceType": "Basic", **same, "extension": [extension], "code": code}


def from_basic(basic: Part, version: FhirVersion) -> Part | None:
    """Return the resource that a Basic holds; None for an ordinary Basic."""
    codings = basic.get("code", {}).get("coding", [])
    type_name = codings[0].get("code") if len(codings) == 1 else None
    extensions = basic.get("extension", [])
    if type_name not in resource_types(version) or len(extensions) != 1:
        return None
    preserved = None
    if extensions[0].get("url") == address(version, type_name):
        preserved = from_extension(extensions[0], {NESTED: type_name}, {type_name: _whole(type_name)}, version)
    same = {name: basic[name] for name in SAME if name in basic}
    return {"resourceType": type_name, **same, **preserved.value} if preserved else None


def _whole(type_name: str) -> ElementDefinition:
    return ElementDefinition(type_name, many=False, required=False, codes=None)
