"""Digests of JSON items: how ownership remembers what was written without keeping it."""

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import orjson

from engine.fhir.json import compact_bytes

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
