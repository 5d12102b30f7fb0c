"""Converts stored resources to a FHIR version, and bodies of a version to stored resources."""

from typing import Any, Final

from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.conversion import convert, set_aside
from engine.fhir.versions.direction import Direction
from engine.fhir.versions.plan import plans
from engine.interchange.kernel.exact import read_resource, write_json

# Types that contain other resources, and the elements.
CARRIERS: Final = {"Bundle": "entry", "Parameters": "parameter"}
TIMESTAMP: Final = "timestamp"


def to_version(body: bytes, type_name: str, version: FhirVersion) -> bytes:
    """Return the bytes of a stored resource in a version."""
    if version is FhirVersion.R4:
        return body
    if type_name in CARRIERS:
        return write_json(_carrier_to_stu3(read_resource(body)))
    if plans(type_name, Direction.TO_STU3) is None:
        return body
    return write_json(convert(read_resource(body), Direction.TO_STU3))


def _carrier_to_stu3(carrier: JsonObject) -> JsonObject:
    """Return an R4 Bundle or Parameters with its resources in STU3; a message's timestamp is in its MessageHeader."""
    held = CARRIERS[carrier["resourceType"]]
    converted = {name: value for name, value in carrier.items() if name != TIMESTAMP}
    converted[held] = [
        {**one, **({"resource": _to_stu3(one["resource"])} if "resource" in one else {})} for one in converted[held]
    ]
    for one in converted[held]:
        if TIMESTAMP in carrier and one["resource"]["resourceType"] == "MessageHeader":
            one["resource"][TIMESTAMP] = carrier[TIMESTAMP]
    return converted


def _to_stu3(resource: JsonObject) -> JsonObject:
    known = plans(resource["resourceType"], Direction.TO_STU3) is not None
    return convert(resource, Direction.TO_STU3) if known else resource


def tolerated(body: Any, version: FhirVersion) -> Any:
    """Return a body for validation: R4 codes from STU3 clients are accepted."""
    return body if version is FhirVersion.R4 else set_aside(body)


def to_stored(resource: JsonObject, version: FhirVersion) -> JsonObject:
    """Return a body of a version as the R4 resource that is stored."""
    return resource if version is FhirVersion.R4 else convert(resource, Direction.TO_R4)
