"""Attempts to sign in: counted for each user and each address, and refused for a while after too many.

Only wrong passwords stay counted. A user is not locked out by a stranger's few attempts, because those of one address
count for themselves; guessing from many addresses ends at the user's own limit.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

WINDOW = timedelta(minutes=15)
CAPACITY = 10_000


class Limit(Enum):
    """How many wrong passwords within 15 minutes."""

    USER_AT_ADDRESS = 5
    ADDRESS = 30
    USER = 50


class Count(NamedTuple):
    """Attempts, and since when."""

    number: int
    since: datetime


Key = tuple[Limit, bytes]


class Attempts:
    """The attempts of the last quarter of an hour, in memory: the latest 10,000 counts."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._counts: dict[Key, Count] = {}

    def begin(self, user: str, address: str) -> int:
        """Count an attempt and return 0; where a limit is reached, return the seconds until it ends, 1 or more."""
        now = self._clock()
        found = {key: self._of(key, now) for key in _keys(user, address)}
        waits = [count.since + WINDOW - now for key, count in found.items() if count.number >= key[0].value]
        if waits:
            return max(1, -(-max(waits) // timedelta(seconds=1)))
        for key, count in found.items():
            self._counts[key] = Count(count.number + 1, count.since)
        self._shrink()
        return 0

    def succeed(self, user: str, address: str) -> None:
        """Take the attempt back: the password was right. What went wrong at this address before is forgiven."""
        for key in _keys(user, address):
            count = self._counts.pop(key, None)
            if count is not None and key[0] is not Limit.USER_AT_ADDRESS and count.number > 1:
                self._counts[key] = Count(count.number - 1, count.since)

    def _of(self, key: Key, now: datetime) -> Count:
        count = self._counts.get(key)
        return count if count is not None and now - count.since < WINDOW else Count(0, now)

    def _shrink(self) -> None:
        while len(self._counts) > CAPACITY:
            del self._counts[next(iter(self._counts))]


def _keys(user: str, address: str) -> tuple[Key, ...]:
    # Digests: what was typed as a user may be long, or a password in the wrong field.
    texts = {
        Limit.USER_AT_ADDRESS: f"{len(address)}:{address}{user}",
        Limit.ADDRESS: address,
        Limit.USER: user,
    }
    return tuple((limit, sha256(text.encode("utf-8", "replace")).digest()) for limit, text in texts.items())
