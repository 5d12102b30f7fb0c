"""Primitive types where HL7's JSON Schemas leave their values open: whole numbers, empty URIs, STU3's patterns."""

import re
from collections.abc import Iterator
from typing import Final

from engine.fhir.json import JsonObject

DEFINITIONS: Final = "#/definitions/"
# The logical id of a resource (FHIR primitive type `id`).
ID: Final = re.compile(r"[A-Za-z0-9\-.]{1,64}")
LARGEST: Final = 2**31 - 1
WHOLE: Final = {"type": "number", "multipleOf": 1, "maximum": LARGEST}
# Text has no control characters but tab, line feed and carriage return; HL7's patterns allow all of them.
TEXT: Final = {"type": "string", "pattern": r"^[^\x00-\x08\x0B\x0C\x0E-\x1F]+$"}
URI: Final = {"type": "string", "pattern": r"^[^\s\x00-\x1F]+$"}
# HL7's schema gives numbers a pattern, which has no effect on numbers, and allows an empty URI.
CORRECTED: Final[JsonObject] = {
    "positiveInt": {**WHOLE, "minimum": 1},
    "unsignedInt": {**WHOLE, "minimum": 0},
    "integer": {**WHOLE, "minimum": -LARGEST - 1},
    "string": TEXT,
    "markdown": TEXT,
    "xhtml": TEXT,
    "code": {"type": "string", "pattern": r"^[^\s\x00-\x1F]+( [^\s\x00-\x1F]+)*$"},
    "uri": URI,
    "url": URI,
    "canonical": URI,
    "base64Binary": {"type": "string", "pattern": r"^(\s*[0-9a-zA-Z+/=]{4}\s*)+$"},
}
# Missing in HL7's schema of R4: the values of a list of canonical addresses may have extensions, too.
CANONICALS: Final = {"$ref": f"{DEFINITIONS}canonical"}
COMPANIONS: Final = {"type": "array", "items": {"$ref": f"{DEFINITIONS}Element"}}
DATES: Final = frozenset({"date", "dateTime", "instant"})
TEXTS: Final = frozenset({"string", "code", "uri", "url", "canonical", "markdown", "id", "oid", "uuid"})
# Elements of Period, which are codes and numbers elsewhere.
PERIOD: Final = frozenset({"start", "end"})


def corrected(definitions: JsonObject, r4: JsonObject) -> JsonObject:
    """Return a version's definitions with corrected primitive types; `r4` are the definitions of R4.

    STU3's patterns may match anywhere in a value, or are empty: what R4 says of a type holds for both.
    """
    known: JsonObject = {name: CORRECTED.get(name, one) for name, one in r4.items() if "properties" not in one}
    values = {name: one for name, one in known.items() if "type" in one}
    return {name: values.get(name) or _referring(one, values) for name, one in {**definitions, **values}.items()}


def dated(definitions: JsonObject) -> frozenset[str]:
    """Return the names of elements that are a date, dateTime or instant wherever they are text."""
    types: dict[str, set[str]] = {}
    for definition in definitions.values():
        for name, shape in definition.get("properties", {}).items():
            types.setdefault(name, set()).update(_type_names(shape))
    return PERIOD | {name for name, found in types.items() if found & DATES and not found & TEXTS}


def _type_names(shape: JsonObject) -> Iterator[str]:
    for one in (shape, shape.get("items", {})):
        if "$ref" in one:
            yield one["$ref"].removeprefix(DEFINITIONS)


def _referring(definition: JsonObject, values: JsonObject) -> JsonObject:
    """Let each choice of a type (`valueDate`), which has a pattern of its own, refer to the type."""
    if "properties" not in definition:
        return definition
    endings = {name[0].upper() + name[1:]: name for name in sorted(values, key=len)}
    properties = {
        name: _reference(name, shape, endings) if shape.get("type") in {"string", "number"} else shape
        for name, shape in definition["properties"].items()
    }
    companions = {f"_{name}": COMPANIONS for name, shape in properties.items() if shape.get("items") == CANONICALS}
    return {**definition, "properties": {**properties, **companions}}


def _reference(name: str, shape: JsonObject, endings: dict[str, str]) -> JsonObject:
    if "enum" in shape or "const" in shape:
        return shape
    # The longest name counts: a dateTime is no time.
    found = [type_name for ending, type_name in endings.items() if name.endswith(ending)]
    return {"$ref": DEFINITIONS + found[-1]} if found else shape
