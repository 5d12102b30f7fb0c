"""`adt-engine doctor`: what would keep the engine from running well here, each with the next step."""

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
import typer

from engine.config.channel import Channel, Mllp
from engine.config.destination import Destination as Settings
from engine.deliver.destination import Destination
from engine.errors import AdtEngineError, ConfigurationError, JournalUnusableError
from engine.journal.database import check_library
from engine.ops import admin
from engine.ops.options import CHANNELS, DATA, Channels, Data, Json, Mappings
from engine.ops.table import NEGATIVE, POSITIVE, cell, output, table
from engine.pipeline.configuration import Configuration, Files, configure
from engine.pipeline.engine import destination_of

LOW_DISK_BYTES: Final = 1_073_741_824


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `good`, what was found, and what to do where it is not good."""

    what: str
    good: bool
    found: str
    do: str = ""


def doctor(channels: Channels = CHANNELS, mappings: Mappings = None, data: Data = DATA, as_json: Json = False) -> None:
    """Check files, folders, disk, SQLite, ports and destinations; exit 1 if anything needs mending.

    Example: adt-engine doctor --channels channels --data /var/lib/adt-engine
    """
    checks = list(_checks(Files(channels, mappings, data)))
    if as_json:
        rows = [{"what": one.what, "good": one.good, "found": one.found, "do": one.do} for one in checks]
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    else:
        output().print(table(("", "What", "Found", "Next step"), (_row(one) for one in checks)))
    if not all(one.good for one in checks):
        raise typer.Exit(1)


def _row(check: Check) -> tuple[object, ...]:
    mark = cell("ok", POSITIVE) if check.good else cell("MEND", NEGATIVE)
    return mark, check.what, check.found, "" if check.good else check.do


def _checks(files: Files) -> Iterator[Check]:
    yield _sqlite()
    yield _folder(files.data)
    yield _disk(files.data)
    running = _running(files.data)
    yield Check("engine", good=True, found="running" if running else "not running")
    try:
        configuration = configure(files)
    except ConfigurationError as error:
        for problem in error.problems:
            yield Check("files", good=False, found=str(problem), do="mend the file")
        return
    yield Check("files", good=True, found=f"{len(configuration.channels)} channels, mappings compiled")
    if not running:
        channels = configuration.channels.values()
        yield from (_door(channel, channel.listen.mllp) for channel in channels if channel.listen.mllp)
    yield from asyncio.run(_destinations(configuration))


def _sqlite() -> Check:
    try:
        check_library()
    except JournalUnusableError as error:
        return Check("SQLite", good=False, found=str(error), do="install a newer pysqlite3")
    return Check("SQLite", good=True, found="new enough for a journal")


def _folder(data: Path) -> Check:
    place = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        return Check("data folder", good=False, found=f"{place} is not writable", do="mend its owner, or use --data")
    if data.exists() and data.stat().st_mode & 0o077:
        return Check("data folder", good=False, found=f"{data} is open to others", do=f"chmod 700 {data}")
    return Check("data folder", good=True, found=str(data.absolute()))


def _disk(data: Path) -> Check:
    place = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free
    return Check("disk", good=free >= LOW_DISK_BYTES, found=f"{free / 2**30:.1f} GiB free", do="free at least 1 GiB")


def _running(data: Path) -> bool:
    try:
        admin.ask(data, "alive", {})
    except (ConnectionError, AdtEngineError):
        return False
    return True


def _door(channel: Channel, mllp: Mllp) -> Check:
    name = f"port of {channel.channel}"
    family = socket.AF_INET6 if ":" in mllp.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((mllp.host, mllp.port))
        except OSError as error:
            return Check(name, good=False, found=f"{mllp.host}:{mllp.port} {error.strerror}", do="choose another port")
    return Check(name, good=True, found=f"{mllp.host}:{mllp.port} free")


async def _destinations(configuration: Configuration) -> list[Check]:
    found = []
    for settings in configuration.destinations.values():
        destination = destination_of(settings, configuration)
        found.append(await _destination(settings, destination))
        await destination.close()
    return found


async def _destination(settings: Settings, destination: Destination) -> Check:
    name = f"destination {settings.name}"
    try:
        abilities = await destination.check()
    except AdtEngineError as error:
        return Check(name, good=False, found=f"{settings.base_url}: {error}", do="start it, or mend base_url and auth")
    lacks = [word for word, has in (("$merge", abilities.merge), ("If-Match", abilities.if_match)) if not has]
    return Check(
        name,
        good=not lacks,
        found=f"{settings.base_url}" + (f" lacks {', '.join(lacks)}" if lacks else ""),
        do="see merge_strategy; without If-Match every update reads first",
    )
