"""The secondary validator: fhir.resources, an independent implementation, for authors and `$validate`.

fhir.resources has models of STU3 (3.0.2) and R4B (4.3.0), not of R4 (4.0.1). R4B's replace R4's: for the types that
are mapped and stored, elements, lists and required elements are the same, and R4B allows two more types as values of
extensions. Deliveries are validated against HL7's own schemas (`schema`), never against these.

Importing this takes most of a second and 20 MB: rarely used code imports it, when it needs it.
"""

from collections.abc import Callable
from typing import Final

from fhir.resources import R4B, STU3
from pydantic import BaseModel, ValidationError

from engine.fhir.extra_constraints import MOST, Defect, DefectKind
from engine.fhir.json import JsonObject
from engine.fhir.schema import NAME, FhirVersion

MODELS: Final[dict[FhirVersion, Callable[[str], type[BaseModel]]]] = {
    FhirVersion.R4: R4B.get_fhir_model_class,
    FhirVersion.STU3: STU3.get_fhir_model_class,
}
# Pydantic's error types. Its texts are not reported, because some quote the value.
KINDS: Final = {
    "missing": (DefectKind.REQUIRED, "a required element is missing"),
    "extra_forbidden": (DefectKind.STRUCTURE, "an element that this type does not have"),
    "model_validation_format": (DefectKind.STRUCTURE, "the JSON type is not the element's"),
}
OTHERS: Final = (DefectKind.VALUE, "the value is not one that the element allows")


def second_opinion(resource: JsonObject, version: FhirVersion) -> tuple[Defect, ...]:
    """Return the faults that fhir.resources finds in a resource; empty for a type without a model.

    At most 100, with their places and never a value.
    """
    name = str(resource["resourceType"])
    try:
        MODELS[version](name).model_validate(resource)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)[:MOST]
        return tuple(dict.fromkeys(Defect(_path(name, one["loc"]), *KINDS.get(one["type"], OTHERS)) for one in faults))
    except (LookupError, ValueError):
        return ()
    return ()


def _path(name: str, steps: tuple[int | str, ...]) -> str:
    """Return a place as FHIRPath, up to the first step that is not the name of an element."""
    path = name
    for step in steps:
        if isinstance(step, str) and (step == "root" or not NAME.fullmatch(step)):
            break
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return path
