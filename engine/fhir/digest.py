"""Digests of JSON items: how ownership remembers what was written without keeping it."""

from hashlib import blake2b
from typing import Any

import orjson

_SIZE = 12


def digest(item: Any) -> str:
    """Return 24 hexadecimal characters that stand for a JSON value, whatever the order of its keys.

    An element's own `id` does not count: servers add it.
    """
    if isinstance(item, dict) and "id" in item:
        item = {key: value for key, value in item.items() if key != "id"}
    return blake2b(orjson.dumps(item, option=orjson.OPT_SORT_KEYS), digest_size=_SIZE).hexdigest()
