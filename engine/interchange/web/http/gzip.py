"""gzip: answers compressed where the client takes it, bodies of requests expanded within the limit (RFC 9110)."""

import zlib
from functools import lru_cache
from typing import Final

# Below this an answer gains nothing that a network would notice.
SHORTEST_BYTES: Final = 1024
# The fastest one: JSON shrinks to a sixth with it, and to a seventh with the default.
LEVEL: Final = 1
GZIP: Final = 16 + zlib.MAX_WBITS
NAMES: Final = frozenset({"gzip", "x-gzip"})
ANY: Final = "*"


class BombError(Exception):
    """A body is larger than the limit once it is expanded."""


@lru_cache(maxsize=256)
def takes_gzip(accept_encoding: str) -> bool:
    """Say whether an Accept-Encoding header lets an answer be compressed."""
    weights: dict[str, bool] = {}
    for part in accept_encoding.lower().split(","):
        name, _, options = part.partition(";")
        weights[name.strip()] = not _refuses(options)
    named = [weights[name] for name in NAMES if name in weights]
    return any(named) if named else weights.get(ANY, False)


def compress(body: bytes) -> bytes:
    """Return a body compressed."""
    return zlib.compress(body, LEVEL, GZIP)


def expand(body: bytes, limit: int) -> bytes:
    """Return a compressed body; BombError where it is larger than `limit`, ValueError where it is no whole gzip.

    No more than `limit` bytes are ever made of it.
    """
    reader = zlib.decompressobj(GZIP)
    try:
        made = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise ValueError("no gzip") from error
    if len(made) > limit:
        raise BombError
    if not reader.eof or reader.unused_data:
        raise ValueError("not one whole gzip")
    return made


def _refuses(options: str) -> bool:
    weight = options.replace(" ", "").partition("q=")[2]
    return bool(weight) and not weight.strip("0.")
