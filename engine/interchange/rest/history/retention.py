"""How long former versions are kept: from when on, for each tenant, and taking what is older."""

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from engine.config.service import Tenant
from engine.interchange.core.service import Service
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.history import ended_versions, take_versions
from engine.interchange.store.search.date import NEVER
from engine.interchange.store.transaction import milliseconds

# Versions that one write takes: others wait for no longer than a few milliseconds.
MOST: Final = 200


def kept_since(tenant: Tenant, now: datetime) -> int:
    """Return the moment (milliseconds) since when a version must have been the present one to be kept."""
    keep = tenant.history.keep
    return NEVER if keep == "all" else milliseconds(now - timedelta(days=keep))


async def take_old(service: Service) -> int:
    """Delete the versions of every tenant that are no longer kept, and return how many these were."""
    taken = 0
    for name, tenant in tuple(service.configuration.tenants.items()):
        before_ms = kept_since(tenant, service.clock())
        for type_name in KEPT if before_ms != NEVER else ():
            taken += await _take(service, name, type_name, before_ms)
    return taken


async def _take(service: Service, tenant: str, type_name: str, before_ms: int) -> int:
    """Take a type's versions, found by a reader: the writer only deletes."""
    look = partial(ended_versions, type_name=type_name, before_ms=before_ms, most=MOST)
    taken = 0
    while found := await asyncio.to_thread(service.store.read, tenant, look):
        await service.store.write(tenant, partial(take_versions, numbers=found))
        taken += len(found)
    return taken
