"""gzip: compressed answers for clients that accept them, request bodies decompressed within the limit (RFC 9110)."""

import zlib
from functools import lru_cache
from typing import Final

# Smaller answers are not worth compressing.
SHORTEST_BYTES: Final = 1024
# The fastest level: JSON shrinks to a sixth, with the default level to a seventh.
LEVEL: Final = 1
GZIP: Final = 16 + zlib.MAX_WBITS
NAMES: Final = frozenset({"gzip", "x-gzip"})
ANY: Final = "*"


class BombError(Exception):
    """The decompressed body exceeds the limit."""


@lru_cache(maxsize=256)
def takes_gzip(accept_encoding: str) -> bool:
    """Say whether an Accept-Encoding header accepts gzip."""
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
    """Decompress a body; BombError if it is larger than `limit`, ValueError if it is not complete gzip.

    At most `limit` bytes are decompressed.
    """
    reader = zlib.decompressobj(GZIP)
    try:
        expanded = reader.decompress(body, limit + 1)
    except zlib.error as error:
        raise ValueError("no gzip") from error
    if len(expanded) > limit:
        raise BombError
    if not reader.eof or reader.unused_data:
        raise ValueError("not one whole gzip")
    return expanded


def _refuses(options: str) -> bool:
    weight = options.replace(" ", "").partition("q=")[2]
    return bool(weight) and not weight.strip("0.")
