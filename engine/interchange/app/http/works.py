"""Background work of the service: jobs, orders, webhooks, retention. One of all processes does it."""

import asyncio
from contextlib import suppress
from typing import Final

from engine.interchange.app.http.app import ServiceApp
from engine.interchange.core.service import Service
from engine.interchange.events.webhooks.settling import delete_expired_events
from engine.interchange.jobs.job import delete_expired_jobs
from engine.interchange.rest.binary.temporary import take_expired
from engine.interchange.rest.history.retention import take_old
from engine.interchange.store.writer import StoreFailedError

LOOK_SECONDS: Final = 0.25
EVERY_SECONDS: Final = 3600
# Each deletes a few rows per transaction, as other writes wait meanwhile.
SWEEPS: Final = (take_old, delete_expired_jobs, take_expired, delete_expired_events)


async def work(app: ServiceApp) -> None:
    """Run the background work while this process holds the store's term, until cancelled."""
    store = app.service.store
    while True:
        if term := store.term:
            await _do(app, term)
            app.renew()
        await asyncio.sleep(LOOK_SECONDS)


async def _do(app: ServiceApp, term: int) -> None:
    works = (app.runner.run(), app.transmitter.run(), app.sender.run(), tidy(app.service))
    tasks = [asyncio.create_task(one) for one in works]
    try:
        while app.service.store.term == term:  # noqa: ASYNC110 - the time, not an event, may end it
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def tidy(service: Service) -> None:
    """Delete expired rows, now and every hour, until cancelled or the store fails for good."""
    while not service.store.failed:
        for sweep in SWEEPS:
            # A busy store is tried again in an hour.
            with suppress(StoreFailedError):
                await sweep(service)
        await asyncio.sleep(EVERY_SECONDS)
