"""What runs with an engine: admin socket, pages and API, care of the journal, the watch, the index of words."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator

from engine.clock import now
from engine.ops.access.access import Access
from engine.ops.access.keys import Keys
from engine.ops.audit.anchors import Anchoring, Anchors, watched
from engine.ops.audit.trail import AuditTrail
from engine.ops.background import indexed, watching
from engine.ops.operations.runner import Operations
from engine.ops.operations.table import ALL
from engine.ops.socket.admin import serving
from engine.ops.web.listener import PagesListener
from engine.ops.web.server import pages
from engine.pipeline.engine import Engine
from engine.pipeline.feed import charsets_of
from engine.pipeline.maintenance.journal import checked, pruning, rolled_up


@contextlib.asynccontextmanager
async def surfaces(
    engine: Engine, trail: AuditTrail, where: PagesListener, listening: socket.socket
) -> AsyncIterator[None]:
    """Run it all until closed, the pages on a bound socket."""
    data = engine.files.data
    anchoring = Anchoring(engine.journal, Anchors.of(data), now)
    access = Access(engine.journal, Keys.of(data), now, totp_required=where.exposed)
    operations = Operations(engine, ALL, trail)
    async with (
        serving(data, os.getuid(), operations),
        pages(engine, operations, access, where, listening),
        watched(trail, anchoring),
        pruning(engine.journal, engine.feeds, now),
        rolled_up(engine),
        checked(engine),
        watching(engine, access, anchoring, where.certificate),
        contextlib.nullcontext()
        if engine.journal.is_shared
        else indexed(data, lambda: charsets_of(engine.feeds.copy())),
    ):
        yield
