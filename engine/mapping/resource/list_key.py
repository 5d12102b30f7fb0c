"""The digest of the key of a listed resource."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from engine.fhir.plan import Identity

KEY_BYTES: Final = 12
# Copied for each key, which is cheaper than a new one.
EMPTY: Final = blake2b(digest_size=KEY_BYTES)


def digest_of(owner: Identity, key: Sequence[str]) -> str:
    """Return the digest of a key within its owner."""
    made = EMPTY.copy()
    made.update("\x1f".join((*owner, *key)).encode("utf-8", "surrogatepass"))
    return made.hexdigest()
