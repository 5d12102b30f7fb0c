"""Taking the content of temporary Binaries that have expired."""

import asyncio
from functools import partial

from engine.interchange.core.service import Service
from engine.interchange.store.temporary import due, sweep
from engine.interchange.store.transaction import milliseconds


async def take_expired(service: Service) -> None:
    """Take the content of temporary Binaries that have expired; writes only where there are any."""
    now_ms = milliseconds(service.clock())
    if await asyncio.to_thread(lambda: due(service.store.reader(), now_ms)):
        await service.store.write_raw(partial(sweep, now_ms=now_ms))
