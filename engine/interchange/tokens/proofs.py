"""Throttle of wrong client secrets and signatures: counted by client and address, refused for a time after too many.

A client at one address does not lock out others, nor itself at another address. Clients' secrets are random, so that
one minute is enough: after a correction nobody waits long.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

MOST: Final = 20
WINDOW: Final = timedelta(minutes=1)
CAPACITY: Final = 10_000


class WrongProofs:
    """Wrong proofs of the last minute, in memory: the latest 10,000 counts; `client` is '' for an unknown one."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._counts: dict[bytes, tuple[int, datetime]] = {}

    def wait(self, client: str, address: str) -> int:
        """Return 0, or once the limit is reached the seconds until it ends, 1 or more."""
        number, since = self._of(client, address)
        left = since + WINDOW - self._clock()
        return max(1, -(-left // timedelta(seconds=1))) if number >= MOST else 0

    def fail(self, client: str, address: str) -> None:
        """Count a wrong proof."""
        number, since = self._of(client, address)
        self._counts[_key(client, address)] = number + 1, since
        while len(self._counts) > CAPACITY:
            del self._counts[next(iter(self._counts))]

    def _of(self, client: str, address: str) -> tuple[int, datetime]:
        now = self._clock()
        number, since = self._counts.get(_key(client, address), (0, now))
        return (number, since) if now - since < WINDOW else (0, now)


def _key(client: str, address: str) -> bytes:
    return sha256(f"{len(address)}:{address}{client}".encode("utf-8", "replace")).digest()
