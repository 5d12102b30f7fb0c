"""`adt-engine lanes`: what is held, what waits behind it, and its release in bulk."""

import typer

from engine.journal.entry import State
from engine.ops.cli.messages.replays import watch
from engine.ops.operations.lanes import HeldView, LaneView, ListHeld, ReleaseHeld, ShowLane
from engine.ops.operations.replays import PlanReplay
from engine.ops.terminal.command import ask, asks, takes
from engine.ops.terminal.options import DATA, Data, Json, Yes, agreed
from engine.ops.terminal.table import output, print_json, print_line, table, utc

app = typer.Typer(help="Show what is held and what is waiting behind it; release in bulk.", no_args_is_help=True)


@app.command(name="list")
@asks(ListHeld, limit=None)
def list_(rows: list[HeldView]) -> None:
    """List what is held, oldest first: since when, why, how much is waiting behind it, and whom to call.

    Example: adt-engine lanes list --data /var/lib/adt-engine
    """
    several = len({row.destination for row in rows}) > 1
    headings = ("Entry #", "Reason", "Held for", "Event", "Waiting #", "Patients #", "Channel", "Destination")
    output().print(table(headings[: None if several else -1], (_row(row, several=several) for row in rows)))
    for name, contact in sorted({(row.channel, row.contact) for row in rows if row.contact}):
        print_line(f"{name}: call {contact}")


@app.command()
@asks(ShowLane, entry="ENTRY", limit=None)
def show(found: LaneView) -> None:
    """Show what is waiting behind an entry in its lanes, in order.

    Example: adt-engine lanes show 37 --data /var/lib/adt-engine
    """
    print_line(f"Entry {found.entry} at {found.destination}: {found.reason}", "bold")
    if found.contact:
        print_line(f"contact of {found.channel}: {found.contact}")
    print_line(f"behind it {found.waiting.entries} entries of {found.waiting.patients} patients")
    headings = ("Entry #", "Received (UTC)", "Event", "Control ID", "State")
    rows = ((row.entry, utc(row.received_at), row.event, row.control_id, row.state) for row in found.waits)
    output().print(table(headings, rows))


@app.command()
@takes(ReleaseHeld)
def release(request: ReleaseHeld, yes: Yes = False, data: Data = DATA, as_json: Json = False) -> None:
    """Release held entries in bulk once the cause is fixed: the engine carries out a bulk run.

    Example: adt-engine lanes release --reason http-422 --rate 50 --data /var/lib/adt-engine
    """
    plan = PlanReplay.parse({**request.given(), "state": State.HELD})
    found = ask(data, plan)
    if found.count:
        if agreed(f"release {found.count} entries?", yes=yes, as_json=as_json):
            watch(data, ask(data, request), as_json=as_json)
    elif as_json:
        print_json(found)
    else:
        print_line("nothing held matches")


def _row(row: HeldView, *, several: bool) -> tuple[object, ...]:
    more = "+" if row.more else ""
    cells = (
        row.entry, row.reason, _age(row.age_seconds), row.event, f"{row.waiting.entries}{more}",
        row.waiting.patients, row.channel,
    )  # fmt: skip
    return (*cells, row.destination) if several else cells


def _age(seconds: int | None) -> str:
    if seconds is None:
        return ""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return f"{days} d" if days > 1 else f"{hours} h" if hours > 1 else f"{minutes} min"
