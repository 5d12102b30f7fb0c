"""The rate limit: a token bucket for each client, on the service's clock."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from engine.config.service import RateLimit

# The cost of a call; a rate of one call per minute earns one unit per microsecond, so that all numbers are integers.
CALL: Final = 60_000_000
MICROSECOND: Final = timedelta(microseconds=1)


class Bucket(NamedTuple):
    """The remaining units of a client at a time; a call costs `CALL` units."""

    units: int
    at: datetime


def take(bucket: Bucket | None, limit: RateLimit, at: datetime) -> tuple[Bucket, int]:
    """Return a bucket after one call, and 0; without enough units the whole seconds until the next call, 1 or more.

    None is a new client, with a full bucket. A clock that goes back adds no units.
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
        """Count a call of a client; return 0, or the seconds until it may call again."""
        self._buckets[client], seconds = take(self._buckets.get(client), limit, at)
        return seconds
