"""A kept resource as a version shows it, and a body of a version as it is kept."""

from typing import Any

from engine.fhir.schema import FhirVersion
from engine.fhir.versions.direction import Direction
from engine.fhir.versions.later import set_aside
from engine.fhir.versions.plan import plans
from engine.fhir.versions.turn import turned
from engine.interchange.exact import read_json, write_json

Json = Any


def shown(body: bytes, type_name: str, version: FhirVersion) -> bytes:
    """Return the bytes of a kept resource in a version."""
    if version is FhirVersion.R4 or plans(type_name, Direction.TO_STU3) is None:
        return body
    return write_json(turned(read_json(body), Direction.TO_STU3))


def tolerated(body: Json, version: FhirVersion) -> Json:
    """Return a body as it is to be checked: R4 codes that clients of STU3 use are no fault."""
    return body if version is FhirVersion.R4 else set_aside(body)


def kept(resource: dict[str, Json], version: FhirVersion) -> dict[str, Json]:
    """Return a body of a version as the R4 resource that is kept."""
    return resource if version is FhirVersion.R4 else turned(resource, Direction.TO_R4)
