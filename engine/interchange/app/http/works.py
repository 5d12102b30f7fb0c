"""What goes on beside the requests: jobs, orders, webhooks, and tidying up. Of all processes one does it."""

import asyncio
from typing import Final

from engine.interchange.app.http.app import ServiceApp
from engine.interchange.app.http.tidying import tidy

LOOK_SECONDS: Final = 0.25


async def work(app: ServiceApp) -> None:
    """Do it while this process is the one that does, until cancelled; what is under way is then left in order."""
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
