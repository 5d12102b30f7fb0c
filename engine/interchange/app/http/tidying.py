"""What is no longer kept is taken away, once an hour."""

import asyncio
from contextlib import suppress
from typing import Final

from engine.interchange.core.service import Service
from engine.interchange.events.webhooks.settling import delete_expired_events
from engine.interchange.jobs.job import delete_expired_jobs
from engine.interchange.rest.binary.retention import take_expired
from engine.interchange.rest.history.retention import take_old
from engine.interchange.store.writer import StoreFailedError

EVERY_SECONDS: Final = 3600
# Each takes a few rows at a time, as all other writes wait meanwhile.
SWEEPS: Final = (take_old, delete_expired_jobs, take_expired, delete_expired_events)


async def tidy(service: Service) -> None:
    """Take what is no longer kept, now and every hour, until cancelled or the store fails for good."""
    while not service.store.failed:
        for sweep in SWEEPS:
            # A store that another process keeps busy is asked again in an hour.
            with suppress(StoreFailedError):
                await sweep(service)
        await asyncio.sleep(EVERY_SECONDS)
