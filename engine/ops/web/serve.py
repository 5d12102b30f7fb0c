"""The pages of a running engine: bound before the engine starts, served beside it until it stops."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path

from engine import telemetry
from engine.clock import now
from engine.journal.read.reading import Reader
from engine.ops.access.access import Access
from engine.ops.operations.runner import Operations
from engine.ops.web.app import App
from engine.ops.web.call import Desk
from engine.ops.web.cookies import Cookies
from engine.ops.web.history import keep
from engine.ops.web.server import PagesListener, serving
from engine.ops.web.table import ROUTES
from engine.pipeline.engine import Engine
from engine.pipeline.post import HttpIntake

_log = telemetry.logger()


@contextlib.asynccontextmanager
async def pages(
    engine: Engine, operations: Operations, access: Access, where: PagesListener, listening: socket.socket
) -> AsyncIterator[None]:
    """Serve the operators' pages of an engine on a bound socket until closed."""
    host, port = listening.getsockname()[:2]
    desk = Desk(engine, operations, access, now, ROUTES, Cookies(port, where.tls), HttpIntake(engine), where.exposed)
    samples = asyncio.create_task(keep(desk.history, now, lambda: _oldest(engine), desk.stopping))
    try:
        async with serving(App(desk, where.names, where.allow), where, listening, desk.stopping):
            _log.info("pages listening", address=host, port=port)
            yield
    finally:
        desk.stopping.set()
        await samples


async def _oldest(engine: Engine) -> datetime | None:
    return await asyncio.to_thread(_read_oldest, engine.files.data)


def _read_oldest(folder: Path) -> datetime | None:
    with Reader(folder) as reader:
        return reader.stats().oldest_unfinished_at
