"""Digests of JSON items: how ownership remembers what was written without keeping it."""

from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

import orjson

from engine.fhir.compact_bytes import compact_bytes

_SIZE: Final = 12
# What is remembered takes 1.5 MiB at most: of items of up to so many bytes, and of the last ones alone.
_REMEMBERED: Final = 2048
_SHORT: Final = 512


def digest(item: Any) -> str:
    """Return 24 hexadecimal characters that stand for a JSON value, whatever the order of its keys.

    An element's own `id` does not count: servers add it.
    """
    if isinstance(item, dict) and "id" in item:
        item = {key: value for key, value in item.items() if key != "id"}
    text = orjson.dumps(item, option=orjson.OPT_SORT_KEYS)
    return _remembered(compact_bytes(text)) if len(text) <= _SHORT else _hashed(text)


def _hashed(text: bytes) -> str:
    return blake2b(text, digest_size=_SIZE).hexdigest()


_remembered = lru_cache(maxsize=_REMEMBERED)(_hashed)
