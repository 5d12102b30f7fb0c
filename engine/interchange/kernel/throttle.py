"""The rate limit: a token bucket for each client, on the service's clock."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from engine.config.service import RateLimit

# What a call costs; one call a minute earns one unit each microsecond, so that all is counted in whole numbers.
CALL: Final = 60_000_000
MICROSECOND: Final = timedelta(microseconds=1)


class Bucket(NamedTuple):
    """What a client has left, in units of which a call costs `CALL`, and when that was so."""

    units: int
    at: datetime


def take(bucket: Bucket | None, limit: RateLimit, at: datetime) -> tuple[Bucket, int]:
    """Return a bucket after one call, and 0; where a call cannot be paid, the whole seconds until it can, 1 or more.

    None stands for a client that has not called yet: its bucket is full. A clock that goes back fills nothing.
    """
    rate = limit.per_client_per_minute
    full = (limit.burst or rate) * CALL
    if bucket is None:
        return Bucket(full - CALL, at), 0
    latest = max(at, bucket.at)
    units = min(bucket.units + (latest - bucket.at) // MICROSECOND * rate, full)
    if units >= CALL:
        return Bucket(units - CALL, latest), 0
    return Bucket(units, latest), -((units - CALL) // (rate * 1_000_000))


class RequestThrottle:
    """The buckets of all clients."""

    def __init__(self) -> None:
        self._buckets: dict[str, Bucket] = {}

    def wait(self, client: str, limit: RateLimit, at: datetime) -> int:
        """Count a call of a client; 0, or the seconds after which it may call again where it may not now."""
        self._buckets[client], seconds = take(self._buckets.get(client), limit, at)
        return seconds
