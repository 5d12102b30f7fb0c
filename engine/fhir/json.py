"""JSON: its types, its compact bytes, and digests of its items."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import orjson

# A value of unknown shape, to be narrowed by isinstance before it is navigated. A reader yields lists, dicts and, where
# a number must keep its digits, Decimals; a value that is written may hold any sequence or mapping of the same.
Json = str | int | float | Decimal | bool | None | Sequence["Json"] | Mapping[str, "Json"]
# A resource of FHIR, an element of one, or another object of known schema. Its values are Any because it is validated
# against the schema before it is navigated.
JsonObject = dict[str, Any]


def compact_bytes(text: bytes) -> bytes:
    """Return a copy of exactly its own length, to be kept; the bytes that orjson returns occupy at least 4 KiB."""
    return bytes(memoryview(text))


_SIZE: Final = 12
# The cache takes 1.5 MiB at most: only small items are kept, and only the latest.
_REMEMBERED: Final = 2048
_SHORT: Final = 512


def digest(item: Any) -> str:
    """Return the digest of a JSON value as 24 hexadecimal characters; the order of keys does not matter.

    An element's own `id` does not count: servers add it.
    """
    if isinstance(item, dict) and "id" in item:
        item = {key: value for key, value in item.items() if key != "id"}
    text = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return _remembered(compact_bytes(text)) if len(text) <= _SHORT else _hashed(text)


def _hashed(text: bytes) -> str:
    return blake2b(text, digest_size=_SIZE).hexdigest()


_remembered = lru_cache(maxsize=_REMEMBERED)(_hashed)
