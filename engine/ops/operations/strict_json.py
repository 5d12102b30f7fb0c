"""JSON of an operation's request: what two readers would understand differently is refused."""

import json
from typing import Any

import orjson


class KeyTwiceError(ValueError):
    """An object has a key twice: which of the two values is meant nobody knows."""


def read_strictly(content: bytes) -> object:
    """Return the value of a JSON text; KeyTwiceError where an object has a key twice, ValueError for no JSON."""
    value: object = orjson.loads(content)
    # What comes out as it came in has no key twice.
    if orjson.dumps(value) != content:
        try:
            json.loads(content, object_pairs_hook=_unique)
        except RecursionError as error:
            raise ValueError("too many levels") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise KeyTwiceError
    return value
