"""R4 codes in STU3 bodies: STU3 clients send them too; they are stored as if they were sent as extensions."""

from functools import cache
from typing import Any

from engine.fhir.json import Json
from engine.fhir.schema import FhirVersion, definitions
from engine.fhir.versions.codes import with_original
from engine.fhir.versions.direction import address
from engine.fhir.versions.plan import paths


def set_aside(resource: Any) -> Any:
    """Return an STU3 resource with STU3 codes only; anything that is not shaped like a resource unchanged."""
    if not isinstance(resource, dict):
        return resource
    return _part(str(resource.get("resourceType")), resource)


def _part(type_name: str, part: Json) -> Json:
    if isinstance(part, list):
        return [_part(type_name, one) for one in part]
    if not isinstance(part, dict):
        return part
    types, codes = _types(type_name), _later(type_name)
    made = {name: _part(types[name], value) if name in types else value for name, value in part.items()}
    for name, (later, url) in codes.items():
        code, companion = made.get(name), made.get(f"_{name}")
        if isinstance(code, str) and code in later and (companion is None or isinstance(companion, dict)):
            del made[name]
            made[f"_{name}"] = with_original(companion, url, code)
    return made


@cache
def _types(type_name: str) -> dict[str, str]:
    """Return the types of the complex elements of an STU3 type."""
    elements = definitions(FhirVersion.STU3).get(type_name, {})
    return {name: one.type for name, one in elements.items() if one.type[0].isupper() and one.type != "ResourceList"}


@cache
def _later(type_name: str) -> dict[str, tuple[frozenset[str], str]]:
    """Return the R4-only codes of each code element of an STU3 type, and the extension that holds them."""
    after = definitions(FhirVersion.R4).get(type_name, {})
    found: dict[str, tuple[frozenset[str], str]] = {}
    for name, one in definitions(FhirVersion.STU3).get(type_name, {}).items():
        later = after[name].codes if name in after else None
        if later is not None and one.codes is not None and not one.many and later > one.codes:
            found[name] = later - one.codes, address(FhirVersion.R4, f"{paths(FhirVersion.R4)[type_name]}.{name}")
    return found
