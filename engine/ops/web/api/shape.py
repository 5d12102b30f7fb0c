"""Short ways to write a JSON Schema (2020-12) of what the API takes and gives."""

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

ANY: Final[Schema] = {}
TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
NUMBER: Final[Schema] = {"type": "number"}
TRUTH: Final[Schema] = {"type": "boolean"}
TIME: Final[Schema] = {"type": "string", "format": "date-time"}


def thing(more: Schema | None = None, /, **fields: Schema) -> Schema:
    """Return the schema of an object that has all these fields, after those of another one."""
    properties = {**(more["properties"] if more else {}), **fields}
    return {"type": "object", "required": list(properties), "properties": properties}


def optional(fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object that may have these fields and no other."""
    return {"type": "object", "properties": dict(fields), "additionalProperties": False}


def rows(of: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of}


def named(of: Schema) -> Schema:
    """Return the schema of an object whose names are ours: of channels, destinations, states."""
    return {"type": "object", "additionalProperties": of}


def or_null(of: Schema) -> Schema:
    """Return the schema of what may be null."""
    return {"anyOf": [of, {"type": "null"}]}


def one_of(*words: str) -> Schema:
    """Return the schema of a closed set of words."""
    return {"type": "string", "enum": list(words)}


def ref(name: str) -> Schema:
    """Return a reference to a schema of the description's own."""
    return {"$ref": f"#/components/schemas/{name}"}
