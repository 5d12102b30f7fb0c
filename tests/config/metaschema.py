"""What is wrong with a JSON Schema by itself, as an editor sees it before it looks at any file."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs


def faults(schema: dict[str, Any]) -> list[str]:
    """Return what the metaschema says of a schema, and each enum that names a value twice.

    The latter the language server of YAML refuses, and with it the whole schema; of draft 7 the metaschema at hand does
    not ask it.
    """
    found = [] if jsonschema_rs.meta.is_valid(schema) else ["not valid by its metaschema"]
    return [*found, *_twice(schema, "")]


def unreadable(schema: dict[str, Any]) -> list[str]:
    """Return the places of patterns that an editor would show raw: without a message of what was expected."""
    return list(_raw(schema, ""))


def _raw(part: Any, path: str) -> Iterator[str]:
    if isinstance(part, dict) and isinstance(part.get("pattern"), str):
        told = part.get("patternErrorMessage", "")
        if not told.startswith("Expected ") or not told.endswith(".") or part["pattern"] in told:
            yield path
    if isinstance(part, dict | list):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _raw(inner, f"{path}/{key}")


def _twice(part: Any, path: str) -> Iterator[str]:
    if isinstance(part, dict):
        values = part.get("enum")
        if isinstance(values, list) and len({repr(value) for value in values}) < len(values):
            yield f"{path}/enum names a value twice"
    if isinstance(part, dict | list):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from _twice(inner, f"{path}/{key}")
