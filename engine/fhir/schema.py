"""Validation of resources against HL7's JSON Schemas of R4 and STU3, and rules that these lack; nulls in lists.

A schema is read at the first use of its version; only the definitions that a resource type reaches are compiled.
"""

import gzip
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib.resources import files
from itertools import count, islice
from typing import Any, Final, NamedTuple

import jsonschema_rs
import orjson

from engine.fhir.extra_constraints import (
    CHOICES,
    CONTAINED,
    MOST,
    R4_CHOICES,
    R4_CODES,
    R4_PRIMITIVES,
    STU3_CHOICES,
    STU3_CODES,
    STU3_PRIMITIVES,
    TOLERATED,
    Defect,
    DefectKind,
    Names,
    bound,
    extra_defects,
    names_of,
)
from engine.fhir.json import Json, JsonObject
from engine.fhir.primitives import corrected, dated

STAND_IN: Final = {"id": "padding"}


def filled(part: Json) -> Json:
    """Return a part of a resource with a stand-in for each null that pads a list.

    The schemas do not allow these nulls. A null without a counterpart in the other list is not padding and stays.
    """
    if isinstance(part, list):
        return [filled(one) for one in part]
    if not isinstance(part, dict):
        return part
    result = {name: filled(value) for name, value in part.items()}
    for name, value in part.items():
        other = part.get(name[1:] if name[:1] == "_" else f"_{name}")
        items = result[name]
        if isinstance(value, list) and isinstance(other, list) and isinstance(items, list) and None in value:
            items = result[name] = [
                _stand_in(name, value) if one is None and other[index : index + 1] not in ([], [None]) else one
                for index, one in enumerate(items)
            ]
            # Only placeholders: nothing to validate.
            if name[:1] != "_" and value.count(None) == len(value) and None not in items:
                del result[name]
    return result


def _stand_in(name: str, values: list[Json]) -> Json:
    return STAND_IN if name[:1] == "_" else next((value for value in values if value is not None), "")


DEFINITIONS: Final = "#/definitions/"
RESOURCE: Final = "ResourceList"
TYPED: Final = {"type": "object", "required": ["resourceType"], "properties": {"resourceType": {"type": "string"}}}
# The form of an element's name, which may be reported.
NAME: Final = re.compile(r"_?[A-Za-z][A-Za-z0-9]{0,63}")
# The parts of an invalid resource that are searched for defects.
PARTS_LOOKED_AT: Final = 2_000


class FhirVersion(StrEnum):
    """The supported FHIR versions."""

    R4 = "R4"
    STU3 = "STU3"


PRIMITIVES: Final = {FhirVersion.R4: R4_PRIMITIVES, FhirVersion.STU3: STU3_PRIMITIVES}
BINDINGS: Final = {FhirVersion.R4: (R4_CODES, {}), FhirVersion.STU3: (STU3_CODES, TOLERATED)}
REQUIRED_CHOICES: Final = {FhirVersion.R4: R4_CHOICES, FhirVersion.STU3: STU3_CHOICES}


class ElementDefinition(NamedTuple):
    """One element of a type: its type's name, whether it is a list, and its codes where they are a fixed set."""

    type: str
    many: bool
    required: bool
    codes: frozenset[str] | None


def defects(resource: JsonObject, version: FhirVersion) -> tuple[Defect, ...]:
    """Return the faults of a resource whose `resourceType` the version has; empty for a valid one.

    At most 100 of each kind of check, so that a large invalid resource takes no longer than a valid one. KeyError:
    the version has no such resource type.
    """
    name = str(resource["resourceType"])
    found = (one for error in _errors(_validator(version, name), resource) for one in _defects(error, name))
    contained = _contained(resource.get(CONTAINED, ()), version, name)
    checks = (found, extra_defects(resource, name, _names(version)), contained)
    return tuple(dict.fromkeys(defect for check in checks for defect in islice(check, MOST)))


@cache
def resource_types(version: FhirVersion) -> frozenset[str]:
    """Return the names of all resource types of a version."""
    return frozenset(_schema(version)["discriminator"]["mapping"])


@cache
def definitions(version: FhirVersion) -> dict[str, dict[str, ElementDefinition]]:
    """Return the elements of every type of a version; a backbone element is a type too (`Encounter_Location`).

    Primitive types have none. Where an element may be of several types, each is an element: `valueString`.
    """
    found = _schema(version)["definitions"]
    primitives = sorted((name for name in found if "properties" not in found[name]), key=len, reverse=True)
    required = {
        name: {*definition.get("required", ()), *PRIMITIVES[version].get(name, ())}
        for name, definition in found.items()
    }
    return {
        name: {
            element: _element(element, shape, primitives, required=element in required[name])
            for element, shape in definition.get("properties", {}).items()
            if not element.startswith("_") and element != "resourceType"
        }
        for name, definition in found.items()
    }


@cache
def _schema(version: FhirVersion) -> JsonObject:
    packed = files("engine.fhir").joinpath("schemas", f"{version.lower()}.schema.json.gz").read_bytes()
    schema: JsonObject = orjson.loads(gzip.decompress(packed))
    return schema


def _element(name: str, shape: JsonObject, primitives: list[str], *, required: bool) -> ElementDefinition:
    item = shape.get("items", shape)
    if "$ref" in item:
        type_name = item["$ref"].removeprefix(DEFINITIONS)
    elif "enum" in item:
        type_name = "code"
    else:
        type_name = next(primitive for primitive in primitives if name.endswith(primitive[0].upper() + primitive[1:]))
    codes = frozenset(item["enum"]) if "enum" in item else None
    return ElementDefinition(type_name, shape.get("type") == "array", required, codes)


@cache
def _validator(version: FhirVersion, name: str) -> jsonschema_rs.Draft6Validator:
    definitions = _definitions(version)
    reached: JsonObject = {RESOURCE: TYPED}
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in reached:
            continue
        definition = definitions[current]
        if "properties" in definition:
            required = [*definition.get("required", ()), *PRIMITIVES[version].get(current, ())]
            properties = bound(current, definition["properties"], *BINDINGS[version])
            # FHIR allows an extension in the place of a primitive (`_status`).
            primitives = [name for name in required if f"_{name}" in properties]
            either = [{"anyOf": [{"required": [name]}, {"required": [f"_{name}"]}]} for name in primitives]
            either += [_any_of(definition, choice) for choice in REQUIRED_CHOICES[version].get(current, ())]
            others = [name for name in required if name not in primitives]
            definition = {**definition, "type": "object", "required": others, "properties": properties}
            definition |= {"allOf": either} if either else {}
        reached[current] = definition
        waiting.extend(_references(definition))
    return jsonschema_rs.Draft6Validator({"allOf": [{"$ref": DEFINITIONS + name}], "definitions": reached})


def _any_of(definition: JsonObject, choice: str) -> JsonObject:
    return {"anyOf": [{"required": [name]} for name in definition["properties"] if name.lstrip("_").startswith(choice)]}


@cache
def _definitions(version: FhirVersion) -> JsonObject:
    return corrected(_schema(version)["definitions"], _schema(FhirVersion.R4)["definitions"])


@cache
def _names(version: FhirVersion) -> Names:
    types: dict[str, set[str]] = {}
    for elements in definitions(version).values():
        for name, element in elements.items():
            types.setdefault(name, set()).add(element.type)
    return names_of(types, dated(_schema(version)["definitions"]))


@cache
def _types(version: FhirVersion) -> frozenset[str]:
    return resource_types(version)


def _errors(validator: jsonschema_rs.Draft6Validator, resource: Json) -> Iterable[Any]:
    """Return the errors at the beginning of a resource, else the first one; each takes 40 microseconds to format."""
    if validator.is_valid(resource) or validator.is_valid(resource := filled(resource)):
        return ()
    found = list(validator.iter_errors(_beginning(resource, count())))
    if found:
        return found
    try:
        validator.validate(resource)
    except jsonschema_rs.ValidationError as error:
        return (error,)
    return ()


def _beginning(part: Json, counted: Iterator[int]) -> Json:
    """Return the first parts of a value; objects stay whole, lists end early."""
    number = next(counted)
    if isinstance(part, dict):
        return {name: _beginning(value, counted) for name, value in part.items()}
    if isinstance(part, list):
        room = max(1, PARTS_LOOKED_AT - number)
        return [_beginning(item, counted) for item in part[:room]]
    return part


def _references(part: Json) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref":
                yield str(value).removeprefix(DEFINITIONS)
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


def _defects(error: Any, name: str) -> Iterator[Defect]:
    path = name + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.AdditionalProperties):
        text = "an element that this type does not have"
        yield from (
            Defect(f"{path}.{one}" if NAME.fullmatch(one) else path, DefectKind.STRUCTURE, text)
            for one in error.kind.unexpected
        )
    else:
        yield _defect(error, path)


def _defect(error: Any, path: str) -> Defect:
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
        return Defect(f"{path}.{kind.property}", DefectKind.REQUIRED, "a required element is missing")
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.AnyOf):
        return Defect(f"{path}.{_either(error)}", DefectKind.REQUIRED, "a required element is missing")
    # A code is text: any other JSON type is a structural error, although the schema only reports a wrong code.
    no_code = isinstance(kind, jsonschema_rs.ValidationErrorKind.Enum) and not isinstance(error.instance, str)
    if no_code or isinstance(kind, jsonschema_rs.ValidationErrorKind.Type):
        return Defect(path, DefectKind.STRUCTURE, "the JSON type is not the element's")
    return Defect(path, DefectKind.VALUE, "the value is not one that the element allows")


def _either(error: Any) -> str:
    """Return the name of a missing required element or choice (`medication[x]`)."""
    wanted: str = error.kind.context[0][0].kind.property
    choices = (f"{name}[x]" for name in CHOICES if wanted.startswith(name) and wanted[len(name) :][:1].isupper())
    return next(choices, wanted)


def _contained(parts: Json, version: FhirVersion, name: str) -> Iterator[Defect]:
    """Yield the faults of contained resources, each validated as its own type."""
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        if not isinstance(part, dict):
            continue
        path, type_name = f"{name}.{CONTAINED}[{index}]", part.get("resourceType")
        if isinstance(type_name, str) and type_name not in _types(version):
            yield Defect(f"{path}.resourceType", DefectKind.STRUCTURE, "the version has no such resource type")
        elif isinstance(type_name, str):
            found = defects(part, version)
            yield from (Defect(path + one.path.removeprefix(type_name), one.kind, one.text) for one in found)
