"""The pages of an engine, served in its loop on a socket that was bound before."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Final

from starlette.concurrency import run_in_threadpool

from engine import telemetry
from engine.clock import now
from engine.http import server
from engine.http.connection import ConnectionLimits, ConnectionRefusal
from engine.ops.access.access import Access
from engine.ops.operations.runner import Operations
from engine.ops.operations.table import ALL
from engine.ops.sites.monitor import monitored
from engine.ops.web.api import machine
from engine.ops.web.api.routes import api_routes
from engine.ops.web.app import App
from engine.ops.web.call import WebContext
from engine.ops.web.headers import Cookies, secured
from engine.ops.web.listener import PagesListener, tls_context
from engine.ops.web.pages import (
    alerts,
    assets,
    audit,
    channels,
    duplicates,
    lanes,
    login,
    message,
    messages,
    overview,
    patient,
    playground,
    runs,
    sites,
    users,
)
from engine.ops.web.pages import help as help_pages
from engine.pipeline.engine import Engine
from engine.pipeline.post import HttpIntake

BOUNDS: Final = ConnectionLimits(400, of_address=100, arrival_seconds=15.0)
KEEP_ALIVE_SECONDS: Final = 75
GRACE_SECONDS: Final = 3


@contextlib.asynccontextmanager
async def serving(
    app: App, where: PagesListener, listening: socket.socket, stopping: asyncio.Event
) -> AsyncIterator[None]:
    """Serve an app on a bound socket until closed; `stopping` is set first, so that streams end."""
    running = server.http_server(
        app,
        BOUNDS,
        lambda _status: ConnectionRefusal(tuple(secured((), tls=where.tls))),
        context=tls_context(where),
        keep_alive_seconds=KEEP_ALIVE_SECONDS,
        grace_seconds=GRACE_SECONDS,
    )
    task = asyncio.create_task(running.serve([listening]))
    try:
        yield
    finally:
        stopping.set()
        running.should_exit = True
        await asyncio.gather(task, return_exceptions=True)
        listening.close()


_log = telemetry.logger()


@contextlib.asynccontextmanager
async def pages(
    engine: Engine, operations: Operations, access: Access, where: PagesListener, listening: socket.socket
) -> AsyncIterator[None]:
    """Serve the operators' pages of an engine on a bound socket until closed."""
    host, port = listening.getsockname()[:2]
    context = WebContext(
        engine, operations, access, now, ROUTES, Cookies(port, where.tls), HttpIntake(engine), where.exposed
    )
    # It loads what a stream needs, which would otherwise keep the first one's senders waiting.
    await run_in_threadpool(bool)
    try:
        async with (
            monitored(lambda: engine.sites) as context.sites,
            serving(App(context, where.names, where.allow), where, listening, context.stopping),
        ):
            _log.info("pages listening", address=host, port=port)
            yield
    finally:
        context.stopping.set()
        for task in context.begun:
            task.cancel()


ROUTES: Final = (
    *overview.ROUTES,
    *alerts.ROUTES,
    *messages.ROUTES,
    *lanes.ROUTES,
    *message.ROUTES,
    *patient.ROUTES,
    *duplicates.ROUTES,
    *runs.ROUTES,
    *channels.ROUTES,
    *sites.ROUTES,
    *playground.ROUTES,
    *help_pages.ROUTES,
    *audit.ROUTES,
    *users.ROUTES,
    *login.ROUTES,
    *assets.ROUTES,
    *machine.ROUTES,
    *api_routes(ALL),
)
