"""JSON: the types of a value of unknown shape and of an object of known schema, and compact copies of its text."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

# A value of unknown shape, to be narrowed by isinstance before it is navigated. A reader yields lists, dicts and, where
# a number must keep its digits, Decimals; a value that is written may hold any sequence or mapping of the same.
Json = str | int | float | Decimal | bool | None | Sequence["Json"] | Mapping[str, "Json"]
# A resource of FHIR, an element of one, or another object of known schema. Its values are Any because it is validated
# against the schema before it is navigated.
JsonObject = dict[str, Any]


def compact_bytes(text: bytes) -> bytes:
    """Return a copy of exactly its own length, to be kept; the bytes that orjson returns occupy at least 4 KiB."""
    return bytes(memoryview(text))
