"""Elements of a resource by path: `name.family`, `effective[x]`, `extension(orderingEnabled).value[x]`."""

import re
from functools import cache
from typing import Any, Final, NamedTuple

from engine.fhir.json import JsonObject

EXTENSION: Final = re.compile(r"extension\(([\w-]+)\)")


class PathStep(NamedTuple):
    """One step down: an element by name, a choice by the start of its name, or extensions by the end of their url."""

    name: str
    choice: bool = False
    extension: str = ""


@cache
def steps(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a path."""
    return tuple(_step(part) for part in path.split("."))


def values(resource: JsonObject, path: str) -> list[Any]:
    """Return the values at a path, with lists flattened; empty for none."""
    found: list[Any] = [resource]
    for step in steps(path):
        below: list[Any] = []
        for part in found:
            if isinstance(part, dict):
                _down(part, step, below)
        if not below:
            return below
        found = below
    return found


@cache
def start(path: str) -> str:
    """Return the first element of a path, without which it has no values; '' where the first is a choice."""
    first = steps(path)[0]
    return "" if first.choice else first.name


def _step(part: str) -> PathStep:
    match = EXTENSION.fullmatch(part)
    if match:
        return PathStep("extension", extension=f"/{match[1]}")
    return PathStep(part.removesuffix("[x]"), part.endswith("[x]"))


def _down(part: JsonObject, step: PathStep, below: list[Any]) -> None:
    """Append the values one step below an object."""
    for value in _choices(part, step.name) if step.choice else (part[step.name],) if step.name in part else ():
        items = value if isinstance(value, list) else (value,)
        below += [one for one in items if str(one.get("url", "")).endswith(step.extension)] if step.extension else items


def _choices(part: JsonObject, name: str) -> list[Any]:
    at = len(name)
    return [value for key, value in part.items() if key.startswith(name) and key[at : at + 1].isupper()]
