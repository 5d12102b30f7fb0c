"""The throttle of log-ins and sign-ins: after a few wrong ones each further one waits, twice as long each time.

Nobody is locked out: those of one address count for themselves, what an account collects from all addresses together
waits a minute at most, and not at all at an address from which the account was opened before.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

CAPACITY: Final = 20_000
FORGOTTEN_AFTER: Final = timedelta(minutes=30)


class Counted(StrEnum):
    """What wrong log-ins are counted by."""

    ACCOUNT_AT_ADDRESS = "account at address"
    ADDRESS = "address"
    ACCOUNT = "account"


class Bound(NamedTuple):
    """How many wrong log-ins are free, how long the next one waits, and the longest wait."""

    free: int
    first: timedelta
    longest: timedelta


BOUNDS: Final = {
    Counted.ACCOUNT_AT_ADDRESS: Bound(5, timedelta(seconds=15), timedelta(minutes=15)),
    Counted.ADDRESS: Bound(30, timedelta(seconds=15), timedelta(minutes=15)),
    Counted.ACCOUNT: Bound(50, timedelta(seconds=15), timedelta(minutes=1)),
}


class Wait(NamedTuple):
    """How long to wait; `first` for the first attempt that is refused, which alone is recorded."""

    seconds: int
    first: bool


class _Count(NamedTuple):
    number: int
    last_at: datetime
    until: datetime
    refused: bool


_Key = tuple[Counted, bytes]


class LogInThrottle:
    """Wrong log-ins of the last half hour, in memory: the latest 20,000 counts."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._counts: OrderedDict[_Key, _Count] = OrderedDict()
        self._homes: OrderedDict[_Key, None] = OrderedDict()

    def begin(self, account: str, address: str) -> Wait | None:
        """Count an attempt as wrong, before it is known; where it must wait, count nothing and say how long."""
        now = self._clock()
        found = {key: self._count(key, now) for key in _keys(account, address)}
        home = next(iter(found)) in self._homes
        waits = [
            (count.until - now, key)
            for key, count in found.items()
            if count.until > now and not (home and key[0] is Counted.ACCOUNT)
        ]
        if waits:
            longest, key = max(waits, key=lambda wait: wait[0])
            first = not found[key].refused
            self._counts[key] = found[key]._replace(refused=True)
            return Wait(max(1, -(-longest // timedelta(seconds=1))), first)
        for key, count in found.items():
            self._counts[key] = _next(key[0], count, now)
            self._counts.move_to_end(key)
        while len(self._counts) > CAPACITY:
            self._counts.popitem(last=False)
        return None

    def succeed(self, account: str, address: str) -> None:
        """Take an attempt back; the account's wrong ones at this address are forgiven."""
        for key in _keys(account, address):
            count = self._counts.pop(key, None)
            if count is not None and key[0] is not Counted.ACCOUNT_AT_ADDRESS and count.number > 1:
                self._counts[key] = count._replace(number=count.number - 1, until=count.last_at)
        home = _keys(account, address)[0]
        self._homes[home] = None
        self._homes.move_to_end(home)
        while len(self._homes) > CAPACITY:
            self._homes.popitem(last=False)

    def _count(self, key: _Key, now: datetime) -> _Count:
        count = self._counts.get(key)
        if count is None or now - count.last_at > FORGOTTEN_AFTER:
            return _Count(0, now, now, refused=False)
        return count


def _next(counted: Counted, count: _Count, now: datetime) -> _Count:
    bound = BOUNDS[counted]
    number = count.number + 1
    over = number - bound.free
    if over < 0:
        return _Count(number, now, now, refused=False)
    wait = min(bound.first * 2 ** min(over, 20), bound.longest)
    return _Count(number, now, now + wait, refused=False)


def _keys(account: str, address: str) -> tuple[_Key, ...]:
    # Digests: what was typed as a name may be long, or a password in the wrong field.
    texts = {
        Counted.ACCOUNT_AT_ADDRESS: f"{len(address)}:{address}{account}",
        Counted.ADDRESS: address,
        Counted.ACCOUNT: account,
    }
    return tuple((counted, sha256(text.encode("utf-8", "replace")).digest()) for counted, text in texts.items())
