"""A kept resource as a version shows it, and a body of a version as it is kept."""

from collections.abc import Callable
from typing import Any, Final

from engine.fhir.schema import FhirVersion
from engine.interchange.exact import read_json, write_json
from engine.interchange.versions import patient

Json = Any
Turn = Callable[[dict[str, Json]], dict[str, Json]]

# One line for each type whose shape differs between the versions.
TO_STU3: Final[dict[str, Turn]] = {"Patient": patient.to_stu3}
TO_R4: Final[dict[str, Turn]] = {"Patient": patient.to_r4}
SET_ASIDE: Final[dict[str, Turn]] = {"Patient": patient.set_aside}


def shown(body: bytes, type_name: str, version: FhirVersion) -> bytes:
    """Return the bytes of a kept resource in a version."""
    if version is FhirVersion.R4 or type_name not in TO_STU3:
        return body
    return write_json(TO_STU3[type_name](read_json(body)))


def tolerated(body: Json, version: FhirVersion) -> Json:
    """Return a body as it is to be checked: R4 codes that clients of STU3 use are no fault."""
    if version is FhirVersion.R4 or not isinstance(body, dict):
        return body
    return SET_ASIDE.get(str(body.get("resourceType")), dict)(body)


def kept(resource: dict[str, Json], version: FhirVersion) -> dict[str, Json]:
    """Return a body of a version as the R4 resource that is kept."""
    if version is FhirVersion.R4:
        return resource
    return TO_R4.get(resource["resourceType"], dict)(resource)
