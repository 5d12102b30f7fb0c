"""How long jobs are kept after their end, results and cancelled ones alike, and taking what is older."""

from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine.interchange.core.service import Service
from engine.interchange.store.job import ended_before, forget
from engine.interchange.store.transaction import milliseconds

KEPT: Final = timedelta(hours=24)
# Jobs that one write takes: a result may be of some megabytes.
MOST: Final = 20


def kept_since(now: datetime) -> int:
    """Return the moment (milliseconds) since when a job must have ended to be kept."""
    return milliseconds(now - KEPT)


async def take_ended(service: Service) -> int:
    """Delete the jobs that ended too long ago, and return how many these were."""
    taken = 0
    while found := ended_before(service.store.reader(), kept_since(service.clock()), MOST):
        await service.store.write_raw(partial(forget, numbers=found))
        taken += len(found)
    return taken
