"""How long events are kept after their end, and taking what is older."""

from datetime import timedelta
from functools import partial
from typing import Final

from engine.interchange.core.service import Service
from engine.interchange.store.notification import ended_before, forget
from engine.interchange.store.transaction import milliseconds

KEPT: Final = timedelta(days=7)
# Events that one write takes.
MOST: Final = 500


async def take_told(service: Service) -> int:
    """Delete the events that ended too long ago, and return how many these were."""
    taken = 0
    while found := ended_before(service.store.reader(), milliseconds(service.clock() - KEPT), MOST):
        await service.store.write_raw(partial(forget, numbers=found))
        taken += len(found)
    return taken
