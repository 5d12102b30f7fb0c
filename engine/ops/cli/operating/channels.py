"""`adt-engine channels`: what the channel files say, and the running engine made of it; start, stop, drain."""

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.config.channel import Channel
from engine.config.channels import load_channels
from engine.config.schema import CHANNEL_FILES, schemas
from engine.errors import AdtEngineError
from engine.ops.cli.init.init import init
from engine.ops.cli.messages.number_forms import number_reports
from engine.ops.cli.messages.replays import DryRun, dry_runs, plan_lines, trial_lines, watch
from engine.ops.operations.channels import (
    AllowMerge,
    ChannelView,
    DrainChannel,
    ListChannels,
    Reload,
    Reloaded,
    ShowMetrics,
    StartChannel,
    StopChannel,
)
from engine.ops.operations.kept import DeliverKept, KeptPlan, PlanKept
from engine.ops.terminal.command import ask, ask_if_running, asks, takes
from engine.ops.views.phrases import phrase
from engine.pipeline.configuration import Files, examine
from engine.terminal.options import (
    CHANNELS,
    DATA,
    AsJson,
    Channels,
    Data,
    Mappings,
    Offline,
    Strict,
    Yes,
    agreed,
    conclude,
    conclude_json,
)
from engine.terminal.schemas import SchemaFolder, show_schemas
from engine.terminal.table import NEGATIVE, POSITIVE, cell, note, output, print_json, print_line, table

HasRun = Annotated[Path | None, typer.Option("--data", help="The data folder of an engine that has run.")]

app = typer.Typer(help="Make, check, list, start, stop and drain channels.", no_args_is_help=True)

POLL_SECONDS: Final = 1.0
# One line a channel in 80 columns: the mode is shown with the state where it is not live.
LIVE: Final = ("Channel", "State", "Listens on", "Senders #", "Received #", "Refused #", "Last (UTC)")
WRITTEN: Final = ("Channel", "Listens on", "Mode", "Mapping", "Merges", "Destinations")


app.command()(init)


@app.command()
def check(
    channels: Channels = CHANNELS,
    mappings: Mappings = None,
    offline: Offline = False,
    strict: Strict = False,
    data: HasRun = None,
    as_json: AsJson = False,
) -> None:
    """Check all files of a folder of channels and the mappings they name, as a start and a reload do.

    Channel files, `alerts.yaml` and `sites.yaml`. All problems at once, each with file, line and column; exit 2 if
    there is one. Warnings do not fail without --strict. Run it as the engine's user, where the engine runs; elsewhere
    with --offline. With --data, also what a changed `identity.normalise` is to the numbers that an engine knows.

    Example: adt-engine channels check --channels channels
    """
    files = Files(channels, mappings, DATA if data is None else data.resolve())
    examined = examine(files, machine=not offline)
    used = examined.configuration
    numbers = [] if data is None or used is None else [one.text() for one in number_reports(files, used)]
    if as_json:
        more = {} if data is None else {"numbers": numbers}
        shown = {"channels": list(used.channels) if used else [], **more}
        conclude_json(shown, examined.problems, examined.warnings, strict=strict)
        return
    ended = conclude(examined.problems, examined.warnings, strict=strict)
    for line in numbers:
        note(line)
    count = len(examined.usable().channels)
    print_line(f"{count} channel{'s' if count > 1 else ''} in {channels}: {ended}")


@app.command()
def schema(
    name: Annotated[str, typer.Argument(help="channel, alerts or sites; all, if none is given.")] = "",
    out: SchemaFolder = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of channel files, alerts.yaml or sites.yaml, or write all into your folder of channels.

    An editor with YAML support finds it by the first line of a file, such as
    `# yaml-language-server: $schema=schema/channel.json`.

    Example: adt-engine channels schema --out channels/schema
    """
    show_schemas(schemas(CHANNEL_FILES), name, out, as_json=as_json)


@app.command(name="list")
def list_channels(channels: Channels = CHANNELS, data: Data = DATA, as_json: AsJson = False) -> None:
    """List channels: of the running engine with their state and counters, else those of a folder of files.

    Below, for each channel, how often its filters held since the engine's start, by rule; which server's events it
    takes, and by which outgoing mapping its relays are told of them; and what the servers of its destinations were
    found not to do, by its code in `reasons`.

    Example: adt-engine channels list --json --data /var/lib/adt-engine
    """
    running = ask_if_running(data, ListChannels())
    written = load_channels(channels) if running is None else ()
    if as_json:
        print_json([_row(channel) for channel in written] if running is None else running)
    elif running is None:
        output().print(table(WRITTEN, map(_written, written)))
        for one in written:
            if (events := one.listen.fhir) is not None:
                source = _events(events.server.name, events.source, one.outgoing_mappings)
                print_line(f"{one.channel}: {source}")
    else:
        output().print(table(LIVE, map(_live, running)))
        for row in (one for one in running if one.rules):
            rules = ", ".join(f"{rule} {count}" for rule, count in row.rules.items())
            print_line(f"{row.channel}: by filters {rules}")
        for row in running:
            if row.outgoing:
                print_line(f"{row.channel}: {_events(row.server, row.events, row.outgoing)}")
            if row.unread:
                print_line(f"{row.channel}: the events of {row.server} are not read: {row.unread}", NEGATIVE)
            for name, codes in row.lacks.items():
                print_line(f"{row.channel}: {name} lacks {', '.join(codes)}", NEGATIVE)


@app.command()
@asks(StartChannel, channel="CHANNEL")
def start(row: ChannelView) -> None:
    """Start a stopped channel.

    Example: adt-engine channels start riverbend-adt --data /var/lib/adt-engine
    """
    _print(row)


@app.command()
@asks(StopChannel, channel="CHANNEL")
def stop(row: ChannelView) -> None:
    """Stop a channel: it answers what is in flight, then accepts nothing until it is started, even after a restart.

    What it has accepted is delivered all the same; other channels keep their connections.

    Example: adt-engine channels stop riverbend-adt --data /var/lib/adt-engine
    """
    _print(row)


@app.command()
@takes(DrainChannel, channel="CHANNEL")
def drain(
    request: DrainChannel,
    within: Annotated[float, typer.Option("--within", min=0, help="Seconds to wait for the rest.")] = 60.0,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Stop a channel and wait until everything it accepted is delivered, held or ended; exit 1 on timeout.

    Example: adt-engine channels drain riverbend-adt --within 300 --data /var/lib/adt-engine
    """
    until = time.monotonic() + within
    while left := (row := ask(data, request)).unfinished:
        if time.monotonic() >= until:
            raise AdtEngineError(
                f"{left} deliveries of {request.channel} are still in progress: see `destinations list`"
            )
        note(f"{left} in progress")
        time.sleep(POLL_SECONDS)
    if as_json:
        print_json(row)
    else:
        print_line(f"{request.channel} is stopped, and has no deliveries in progress")


@app.command()
@takes(DeliverKept, channel="CHANNEL")
def deliver(
    request: DeliverKept, dry_run: DryRun = False, yes: Yes = False, data: Data = DATA, as_json: AsJson = False
) -> None:
    """Deliver what a channel kept since a time: in shadow, or by a rule that has changed since (--reason RULE).

    In journal order, each in its place among its patient's messages, as a bulk run of the engine: shown and confirmed
    first. What was overtaken by newer data of its patient is refused without --force. With --dry-run each planned call
    is printed, and nothing is written.

    Example: adt-engine channels deliver riverbend-adt --since 2025-07-04T18:00 --dry-run --data /var/lib/adt-engine

    Example: adt-engine channels deliver riverbend-adt --since 60h --data /var/lib/adt-engine
    """
    plan = ask(data, PlanKept.parse({**request.given(), "dry_run": not (yes or dry_run)}))
    for line in () if as_json else kept_lines(plan, request):
        print_line(line)
    if dry_run:
        dry_runs(data, plan.entries, request.destination, as_json=as_json)
    elif not plan.count:
        if as_json:
            print_json(plan)
    elif agreed("deliver them?", yes=yes, as_json=as_json):
        watch(data, ask(data, request), as_json=as_json)


@app.command(name="allow-merge")
@asks(AllowMerge, channel="CHANNEL")
def allow_merge(row: ChannelView) -> None:
    """Let a channel that exceeded its `merge_limit` merge again; release what was held meanwhile with `lanes`.

    Example: adt-engine channels allow-merge riverbend-adt --data /var/lib/adt-engine
    """
    _print(row)


@app.command()
@asks(Reload)
def reload(done: Reloaded) -> None:
    """Reload channels and mappings: check them, then put them in effect; a mistake leaves everything as it was.

    Example: adt-engine channels reload --data /var/lib/adt-engine
    """
    print_line(f"changed: {', '.join(done.changed) or 'nothing'}")


@app.command()
@asks(ShowMetrics)
def metrics(text: str) -> None:
    """Print the metrics of the running engine in the text format of Prometheus.

    Example: adt-engine channels metrics --data /var/lib/adt-engine
    """
    typer.echo(text, nl=False)


def kept_lines(plan: KeptPlan, request: DeliverKept) -> Iterator[str]:
    """Yield what a delivery of kept entries would take up, and what of it would not be delivered."""
    yield from plan_lines(plan, plan.overtaken, request.rate, force=request.force)
    yield from trial_lines(plan)
    if plan.pending:
        yield f"{plan.pending} deliveries are still tried in shadow: a later run takes them up, once that has ended"


def _print(row: ChannelView) -> None:
    print_line(f"{row.channel} is {phrase(row.state, 'channel')}{'; its merges are held' if row.merges_held else ''}")


def _row(channel: Channel) -> dict[str, object]:
    mllp, http, fhir = channel.listen.mllp, channel.listen.http, channel.listen.fhir
    address = f"{mllp.host}:{mllp.port}" if mllp else ""
    return {
        "channel": channel.channel,
        "listens_on": _listens_on(address, http.path if http else "", fhir.path if fhir else ""),
        "tls": mllp is not None and mllp.tls is not None,
        "mode": str(channel.mode),
        "mapping": channel.mapping,
        "own_mappings": channel.own_mappings,
        "outgoing": channel.outgoing_mappings,
        "allow_merge": channel.allow_merge,
        "destinations": [destination.name for destination in channel.destinations],
        "filters": [one.rule for one in channel.filters],
        "contact": channel.contact,
    }


def _written(channel: Channel) -> tuple[object, ...]:
    row, own = _row(channel), channel.own_mappings
    names = (destination.name for destination in channel.destinations)
    places = ", ".join(f"{name} (mapping {own[name]})" if name in own else name for name in names)
    merges = "allowed" if channel.allow_merge else "refused"
    mapping = channel.mapping
    if channel.outgoing_mappings:
        # Nothing of it is mapped to FHIR, and nobody is merged.
        merges, mapping = "", ", ".join(f"out/{name}" for name in sorted({*channel.outgoing_mappings.values()}))
    return channel.channel, row["listens_on"], row["mode"], mapping, merges, places


def _events(server: str, source: str, outgoing: Mapping[str, str]) -> str:
    mappings = ", ".join(f"{name} by out/{mapping}" for name, mapping in outgoing.items())
    return f"events of {server} ({source}), told to {mappings}"


def _listens_on(address: str, http: str, fhir: str) -> str:
    doors = (address, f"POST /hl7/v2/{http}" if http else "", f"POST /fhir/events/{fhir}" if fhir else "")
    return ", ".join(filter(None, doors))


def _live(row: ChannelView) -> tuple[object, ...]:
    mode = "" if row.mode == "live" else f", {row.mode}"
    state = cell(f"{phrase(row.state, 'channel')}{mode}", POSITIVE if row.state == "listening" else NEGATIVE)
    where = _listens_on(f"{row.address}:{row.port}" if row.port else "", row.http, row.fhir)
    at, today = row.last_received_at or "", datetime.now(UTC).date().isoformat()
    last = at[11:19] if at[:10] == today else at[:10]
    return row.channel, state, where, row.connections, row.messages, row.refused, last
