"""What goes out, held against the FHIR schema of the destination's version (`validate: warn | refuse`)."""

from typing import Any, Final

from engine.fhir.schema import FhirVersion, defects, resource_types

INVALID: Final = "invalid-output"
MOST_PLACES: Final = 5


def faults(resource: dict[str, Any], fhir: str) -> tuple[str, ...]:
    """Return codes for what is wrong with a resource: `invalid-output` and the first places, never a value.

    Empty for a valid one. A resource type that the version does not have is one fault.
    """
    version = FhirVersion(fhir)
    type_ = str(resource.get("resourceType"))
    if type_ not in resource_types(version):
        return (INVALID, f"{INVALID} {type_}")
    places = dict.fromkeys(defect.path for defect in defects(resource, version))
    return (INVALID, *(f"{INVALID} {place}" for place in list(places)[:MOST_PLACES])) if places else ()
