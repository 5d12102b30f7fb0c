"""`adt-engine doctor`: what would keep the engine from running well here, each with the next step."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import AdtEngineError, ConfigurationError, JournalUnusableError
from engine.journal.opening import address_of, exists
from engine.ops.cli.examine.check import Check, CheckStatus, check
from engine.ops.cli.examine.destinations import destinations, secrets
from engine.ops.cli.examine.events import events
from engine.ops.cli.examine.machine import listeners, machine
from engine.ops.cli.examine.shared_journal import shared_journal
from engine.ops.cli.messages.number_forms import number_reports
from engine.ops.operations.channels import ShowAlive
from engine.ops.socket import client
from engine.pipeline.configuration import Configuration, Files, configure
from engine.terminal.options import CHANNELS, DATA, AsJson, Channels, Data, Mappings
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_json, table

STYLES: Final = {CheckStatus.GOOD: POSITIVE, CheckStatus.LOOK: "yellow", CheckStatus.FIX: NEGATIVE}


def doctor(
    channels: Channels = CHANNELS,
    mappings: Mappings = None,
    data: Data = DATA,
    alive: Annotated[
        bool, typer.Option("--alive", help="Only check whether the engine is running: exit 0 if it answers.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check machine, disk, SQLite, clock, files, permissions, certificates, ports and destinations.

    Exit 1 if anything must be fixed. Lines marked `look` need a person's judgement.

    Example: adt-engine doctor --channels channels --data /var/lib/adt-engine
    """
    if alive:
        if not _running(data):
            raise AdtEngineError(f"no engine answers on {data}")
        return
    checks = list(_checks(Files(channels, mappings, data.resolve())))
    if as_json:
        rows = [{"what": one.what, "standing": str(one.standing), "found": one.found, "do": one.do} for one in checks]
        print_json(rows)
    else:
        output().print(table(("State", "What", "Found", "Next step"), (_row(check) for check in checks)))
    if any(check.standing is CheckStatus.FIX for check in checks):
        raise typer.Exit(1)


def _row(one: Check) -> tuple[object, ...]:
    word = "FIX" if one.standing is CheckStatus.FIX else str(one.standing)
    return cell(word, STYLES[one.standing]), one.what, one.found, one.do


def _checks(files: Files) -> Iterator[Check]:
    try:
        # What this machine lacks is looked at one by one below.
        configuration = configure(files, machine=False)
    except ConfigurationError as error:
        yield from machine(files.data, 0)
        for problem in error.problems:
            yield Check("files", CheckStatus.FIX, str(problem), "fix the file")
        return
    channels = configuration.channels.values()
    yield from machine(files.data, sum(channel.limits.connections for channel in channels))
    running = _running(files.data)
    yield Check("engine", CheckStatus.GOOD, "running" if running else "not running")
    if address := address_of(files.data):
        yield from shared_journal(address)
    yield Check("files", CheckStatus.GOOD, f"mappings compiled, channels: {len(configuration.channels)}")
    for channel in channels:
        yield from listeners(channel, running=running)
    yield from _numbers(files, configuration)
    yield from secrets(configuration)
    yield from asyncio.run(destinations(configuration, files.data))
    yield from asyncio.run(events(configuration))


def _numbers(files: Files, configuration: Configuration) -> Iterator[Check]:
    """Yield what the forms of numbers are to those that are known, where an engine has run here."""
    if not exists(files.data):
        return
    do = "look at them before you reload: adt-engine patients normalise CHANNEL"
    try:
        found = number_reports(files, configuration)
    except JournalUnusableError:
        return  # said by what is looked at first
    for one in found:
        changed = one.in_force != one.by_files or bool(one.survey.clashes)
        yield check("numbers", one.text(), good=not changed, do=do, otherwise=CheckStatus.LOOK)


def _running(data: Path) -> bool:
    try:
        client.ask(data, ShowAlive, {})
    except (ConnectionError, AdtEngineError):
        return False
    return True
