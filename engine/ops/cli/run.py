"""`adt-engine run`: the engine as a process, from start to a graceful stop."""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import typer
import uvloop

from engine import interpreter, telemetry
from engine.clock import now
from engine.database.sqlite import SqliteError
from engine.errors import AdtEngineError, ConfigurationError, JournalFailedError, UsageError, place_of
from engine.journal.file.database import refuse_vanished
from engine.journal.opening import address_of
from engine.ops.access.keys import keys_of
from engine.ops.audit.trail import AuditTrail
from engine.ops.terminal.address import database_address
from engine.ops.web.listener import PagesListener, bind, pages_listener
from engine.pipeline.configuration import Files
from engine.pipeline.engine import Engine
from engine.pipeline.publication import tell, untold
from engine.receive.reactor import install
from engine.terminal.faults import arm_as_asked
from engine.terminal.options import (
    ADMIN,
    CHANNELS,
    DATA,
    AcceptEmptyJournal,
    AcceptNewAccessKey,
    Admin,
    AdminAllow,
    AdminCertificate,
    AdminKey,
    Channels,
    Data,
    Journal,
    Mappings,
    Node,
    PublishMappings,
)

EXIT_FAILED: Final = 75
# Of an engine that others have taken for dead.
ANEW: Final = -1
Surfaces = Callable[[Engine, AuditTrail, PagesListener, socket.socket], AbstractAsyncContextManager[None]]

_log = telemetry.logger()


def run(
    channels: Channels = CHANNELS,
    mappings: Mappings = None,
    publish_mappings: PublishMappings = False,
    data: Data = DATA,
    journal: Journal = "",
    node: Node = "",
    admin: Admin = ADMIN,
    admin_certificate: AdminCertificate = None,
    admin_key: AdminKey = None,
    admin_allow: AdminAllow = None,
    accept_empty_journal: AcceptEmptyJournal = False,
    accept_new_access_key: AcceptNewAccessKey = False,
) -> None:
    """Run the engine: listen on every channel, deliver to its destinations, serve the operators' pages, until stopped.

    SIGTERM or Ctrl-C stops it after what is in flight is answered; SIGHUP reads channels and mappings again. Log
    lines are JSON on standard error. Exit 0 after a stop, 2 if a file or setting is wrong, 75 if the journal failed, 1
    if something else is in the way (a port, another engine, a journal that cannot be opened): the last line says what.

    Example: adt-engine run --channels channels --data /var/lib/adt-engine
    """
    telemetry.configure()
    telemetry.hush()
    os.umask(0o077)
    arm_as_asked()
    address = database_address("--journal", journal) if journal else ""
    if publish_mappings and mappings is None:
        raise UsageError("--publish-mappings needs --mappings: name the folder that may be written")
    where = pages_listener(admin, admin_certificate, admin_key, admin_allow)
    if not (address or accept_empty_journal or address_of(data)):
        refuse_vanished(data)
    files = Files(channels, mappings, data, address, node, publish_mappings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            code = runner.run(serve(files, where, accept_new_access_key=accept_new_access_key))
        except (JournalFailedError, SqliteError) as error:
            _log.critical("journal failed", error=type(error).__name__, point=place_of(error))
            code = EXIT_FAILED
    if code == ANEW:
        # A process that was taken for dead begins anew, in its place: nothing that it knew is true any more.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - its own command
    if code:
        raise typer.Exit(code)


async def serve(files: Files, where: PagesListener, *, accept_new_access_key: bool = False) -> int:
    """Run an engine until a signal or a failure of its journal; return the exit code."""
    install()
    loop = asyncio.get_running_loop()
    telemetry.hush_loop(loop)
    stop = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stop.set)
    with contextlib.closing(bind(where)) as listening:
        return await _serve(files, where, listening, stop, accept_new_access_key)


async def _serve(
    files: Files, where: PagesListener, listening: socket.socket, stop: asyncio.Event, accept_new_key: bool
) -> int:
    loop = asyncio.get_running_loop()
    with interpreter.loading():
        engine = await Engine.start(files)
        trail = await _trail(engine, accept_new=accept_new_key)
        reloads: set[asyncio.Task[None]] = set()
        loop.add_signal_handler(signal.SIGHUP, lambda: reloads.add(loop.create_task(_reload(engine, trail))))
        surfaces = await asyncio.to_thread(_surfaces)
    interpreter.settle()
    async with surfaces(engine, trail, where, listening):
        await _note_insecure(engine, trail)
        await _note_put_back(engine, trail)
        _log.info("started", pid=os.getpid(), count=len(engine.listeners.intakes))
        waits = [loop.create_task(stop.wait()), loop.create_task(engine.failed.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        failed = engine.failed.is_set()
        _log.info("stopping")
        # What runs with the engine may be about to write as well.
        engine.journal.leave()
    await engine.stop()
    _log.info("stopped")
    if engine.journal.lost:
        return ANEW
    return EXIT_FAILED if failed or engine.journal.failed else 0


def _surfaces() -> Surfaces:
    """Return what runs with an engine; it is imported while messages come in already."""
    from engine.ops.cli.surfaces import surfaces  # noqa: PLC0415 - nothing of it is needed to listen

    return surfaces


async def _trail(engine: Engine, *, accept_new: bool) -> AuditTrail:
    """Return the audit trail of an engine; without its key the engine stops again."""
    try:
        keys = await keys_of(engine.journal, engine.files.data, accept_new=accept_new)
        return AuditTrail(engine.journal, keys, now)
    except AdtEngineError:
        await engine.stop()
        raise


async def _note_insecure(engine: Engine, trail: AuditTrail) -> None:
    """Write down which channels other machines can reach unprotected, because their files accept that."""
    for name, feed in sorted(engine.feeds.items()):
        if feed.channel.open_to_all:
            _log.warning("channel insecure", channel=name)
            await trail.note("channel.insecure", channel=name)


async def _note_put_back(engine: Engine, trail: AuditTrail) -> None:
    """Write down that mapping files which were to be put in force are not, as a start found them half-way there."""
    for number in await asyncio.to_thread(untold, engine.files.data):
        await trail.note("mappings.put-back", publication=number)
        await asyncio.to_thread(tell, engine.files.data, number)


async def _reload(engine: Engine, trail: AuditTrail) -> None:
    try:
        await engine.reload()
        await _note_insecure(engine, trail)
    except ConfigurationError as error:
        for problem in error.problems:
            _log.error("reload refused", file=f"{problem.file}:{problem.line}:{problem.column}", error=str(problem))
    except AdtEngineError as error:
        _log.error("reload failed", error=str(error))
