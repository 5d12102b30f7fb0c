"""`adt-engine lanes`: what is held, what waits behind it, and its release in bulk."""

from typing import Annotated

import typer

from engine.ops.cli.messages.replays import watch
from engine.ops.operations.lanes import HeldView, ListHeld, ReleaseHeld, ShowLane
from engine.ops.operations.replays import PlanReplay
from engine.ops.terminal.asking import asked
from engine.ops.terminal.options import DATA, Data, Entry, Json
from engine.ops.terminal.table import cell, output, say_json, table

app = typer.Typer(help="Show what is held and what is waiting behind it; release in bulk.", no_args_is_help=True)

Reason = Annotated[str, typer.Option(help="Held for this reason, such as http-422.")]
Channel = Annotated[str, typer.Option(help="Only of this channel.")]
Place = Annotated[str, typer.Option("--destination", help="Only of this destination.")]


@app.command(name="list")
def list_(
    reason: Reason = "", channel: Channel = "", destination: Place = "", data: Data = DATA, as_json: Json = False
) -> None:
    """List what is held, oldest first: since when, why, how much is waiting behind it, and whom to call.

    Example: adt-engine lanes list --data /var/lib/adt-engine
    """
    rows = asked(data, ListHeld, reason=reason, channel=channel, destination=destination)
    if as_json:
        say_json(rows)
        return
    several = len({row.destination for row in rows}) > 1
    headings = ("Entry #", "Reason", "Held for", "Event", "Waiting #", "Patients #", "Channel", "Destination")
    output().print(table(headings[: None if several else -1], (_row(row, several=several) for row in rows)))
    for name, contact in sorted({(row.channel, row.contact) for row in rows if row.contact}):
        output().print(cell(f"{name}: call {contact}"), soft_wrap=True)


@app.command()
def show(
    entry: Entry,
    destination: Place = "",
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Show what is waiting behind an entry in its lanes, in order.

    Example: adt-engine lanes show 37 --data /var/lib/adt-engine
    """
    found = asked(data, ShowLane, entry=entry, destination=destination)
    if as_json:
        say_json(found)
        return
    console = output()
    console.print(cell(f"Entry {entry} at {found.destination}: {found.reason}", "bold"), soft_wrap=True)
    if found.contact:
        console.print(cell(f"contact of {found.channel}: {found.contact}"), soft_wrap=True)
    waiting = found.waiting
    console.print(f"behind it {waiting.entries} entries of {waiting.patients} patients")
    headings = ("Entry #", "Received (UTC)", "Event", "Control ID", "State")
    rows = (
        (row.entry, row.received_at[:19].replace("T", " "), row.event, row.control_id, row.state) for row in found.waits
    )
    console.print(table(headings, rows))


@app.command()
def release(
    reason: Reason = "",
    channel: Channel = "",
    destination: Place = "",
    rate: Annotated[float, typer.Option(help="Entries per second.")] = 200.0,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    data: Data = DATA,
) -> None:
    """Release held entries in bulk once the cause is fixed: the engine carries out a bulk run.

    Example: adt-engine lanes release --reason http-422 --rate 50 --data /var/lib/adt-engine
    """
    given = {"reason": reason, "channel": channel, "destination": destination}
    count = asked(data, PlanReplay, **given, state="held").count
    if not count:
        output().print("nothing held matches")
    if not count or not (yes or typer.confirm(f"release {count} entries?")):
        return
    watch(data, asked(data, ReleaseHeld, **given, rate=rate))


def _row(row: HeldView, *, several: bool) -> tuple[object, ...]:
    more = "+" if row.more else ""
    told = (
        row.entry, row.reason, _age(row.age_seconds), row.event, f"{row.waiting.entries}{more}",
        row.waiting.patients, row.channel,
    )  # fmt: skip
    return (*told, row.destination) if several else told


def _age(seconds: int | None) -> str:
    if seconds is None:
        return ""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return f"{days} d" if days > 1 else f"{hours} h" if hours > 1 else f"{minutes} min"
