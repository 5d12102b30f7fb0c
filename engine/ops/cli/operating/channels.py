"""`adt-engine channels`: what the channel files say, and the running engine made of it; start, stop, drain."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import typer

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.errors import AdtEngineError
from engine.ops.operations.channels import (
    AllowMerge,
    ChannelView,
    DrainChannel,
    ListChannels,
    Reload,
    ShowMetrics,
    StartChannel,
    StopChannel,
)
from engine.ops.terminal.asking import asked, asked_if_running
from engine.ops.terminal.options import CHANNELS, DATA, Channels, Data, Json, Mappings, Offline, Strict, conclude
from engine.ops.terminal.table import NEGATIVE, POSITIVE, cell, errors, output, say_json, table
from engine.pipeline.configuration import Files, examine

app = typer.Typer(help="Check, list, start, stop and drain channels.", no_args_is_help=True)

POLL_SECONDS: Final = 1.0
# One line a channel in 80 columns: how it is meant stands with the state where it is not live.
LIVE: Final = ("Channel", "State", "Listens on", "Open #", "Came #", "Refused #", "Last (UTC)")
WRITTEN: Final = ("Channel", "Listens on", "Mode", "Mapping", "Merges", "Destinations")
Name = Annotated[str, typer.Argument(help="The channel's name.")]


@app.command()
def check(
    channels: Channels = CHANNELS, mappings: Mappings = None, offline: Offline = False, strict: Strict = False
) -> None:
    """Check every channel file of a folder, its alerts.yaml and the mappings they name, as a start and a reload do.

    All problems at once, each with file, line and column; exit 2 if there is one. Warnings do not fail without
    --strict. Run it as the engine's user, where the engine runs; elsewhere with --offline.

    Example: adt-engine channels check --channels channels
    """
    examined = examine(Files(channels, mappings, DATA), machine=not offline)
    ended = conclude(examined.problems, examined.warnings, strict=strict)
    count = len(examined.usable().channels)
    output().print(f"{count} channel{'s' if count > 1 else ''} in {channels}: {ended}", soft_wrap=True)


@app.command(name="list")
def list_channels(channels: Channels = CHANNELS, data: Data = DATA, as_json: Json = False) -> None:
    """List channels: of the running engine with their state and counters, else those of a folder of files.

    Example: adt-engine channels list --json --data /var/lib/adt-engine
    """
    running = asked_if_running(data, ListChannels)
    written = [_row(channel) for channel in load_channels(channels)] if running is None else []
    if as_json:
        say_json(written if running is None else running)
    elif running is None:
        output().print(table(WRITTEN, map(_written, written)))
    else:
        output().print(table(LIVE, map(_live, running)))


@app.command()
def start(channel: Name, data: Data = DATA) -> None:
    """Start a stopped channel.

    Example: adt-engine channels start riverbend-adt --data /var/lib/adt-engine
    """
    _say(asked(data, StartChannel, channel=channel))


@app.command()
def stop(channel: Name, data: Data = DATA) -> None:
    """Stop a channel: it answers what is in flight, then accepts nothing until it is started, even after a restart.

    What it has accepted is delivered all the same; other channels keep their connections.

    Example: adt-engine channels stop riverbend-adt --data /var/lib/adt-engine
    """
    _say(asked(data, StopChannel, channel=channel))


@app.command()
def drain(
    channel: Name,
    within: Annotated[float, typer.Option("--within", min=0, help="Seconds to wait for the rest.")] = 60.0,
    data: Data = DATA,
) -> None:
    """Stop a channel and wait until everything it accepted is delivered, held or ended; exit 1 on timeout.

    Example: adt-engine channels drain riverbend-adt --within 300 --data /var/lib/adt-engine
    """
    until = time.monotonic() + within
    while left := asked(data, DrainChannel, channel=channel).unfinished:
        if time.monotonic() >= until:
            raise AdtEngineError(f"{left} deliveries of {channel} are still in progress: see `destinations list`")
        errors().print(f"{left} in progress")
        time.sleep(POLL_SECONDS)
    output().print(f"{channel} is stopped, and has no deliveries in progress")


@app.command(name="allow-merge")
def allow_merge(channel: Name, data: Data = DATA) -> None:
    """Let a channel that exceeded its `merge_limit` merge again; release what was held meanwhile with `lanes`.

    Example: adt-engine channels allow-merge riverbend-adt --data /var/lib/adt-engine
    """
    _say(asked(data, AllowMerge, channel=channel))


@app.command()
def reload(data: Data = DATA) -> None:
    """Reload channels and mappings: check them, then put them in effect; a mistake leaves everything as it was.

    Example: adt-engine channels reload --data /var/lib/adt-engine
    """
    changed = asked(data, Reload).changed
    output().print(cell(f"changed: {', '.join(changed) or 'nothing'}"), soft_wrap=True)


@app.command()
def metrics(data: Data = DATA) -> None:
    """Print the metrics of the running engine in the text format of Prometheus.

    Example: adt-engine channels metrics --data /var/lib/adt-engine
    """
    typer.echo(asked(data, ShowMetrics), nl=False)


def _say(row: ChannelView) -> None:
    held = "; its merges are held" if row.merges_held else ""
    output().print(cell(f"{row.channel} is {row.state}{held}"), soft_wrap=True)


def _row(channel: Channel) -> dict[str, Any]:
    mllp, http = channel.listen.mllp, channel.listen.http
    doors = [f"{mllp.host}:{mllp.port}"] if mllp else []
    return {
        "channel": channel.channel,
        "listens_on": ", ".join(doors + ([f"POST /hl7/v2/{http.path}"] if http else [])),
        "tls": mllp is not None and mllp.tls is not None,
        "mode": str(channel.mode),
        "mapping": channel.mapping,
        "allow_merge": channel.allow_merge,
        "destinations": [destination.name for destination in channel.destinations],
        "contact": channel.contact,
    }


def _written(row: Mapping[str, Any]) -> tuple[object, ...]:
    merges = "allowed" if row["allow_merge"] else "refused"
    return row["channel"], row["listens_on"], row["mode"], row["mapping"], merges, ", ".join(row["destinations"])


def _live(row: ChannelView) -> tuple[object, ...]:
    mode = "" if row.mode == "live" else f", {row.mode}"
    state = cell(f"{row.state}{mode}", POSITIVE if row.state == "listening" else NEGATIVE)
    doors = [f"{row.address}:{row.port}"] if row.port else []
    where = ", ".join(doors + ([f"POST /hl7/v2/{row.http}"] if row.http else []))
    at, today = row.last_received_at or "", datetime.now(UTC).date().isoformat()
    last = at[11:19] if at[:10] == today else at[:10]
    return row.channel, state, where, row.connections, row.messages, row.refused, last
