"""What stands for the key of a thing that a message lists."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from engine.fhir.plan import Identity

KEY_BYTES: Final = 12
# Copied for each key, which takes a fraction of making one.
EMPTY: Final = blake2b(digest_size=KEY_BYTES)


def digest_of(owner: Identity, key: Sequence[str]) -> str:
    """Return what stands for a key, within whose it is."""
    made = EMPTY.copy()
    made.update("\x1f".join((*owner, *key)).encode("utf-8", "surrogatepass"))
    return made.hexdigest()
