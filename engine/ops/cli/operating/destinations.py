"""`adt-engine destinations`: how the FHIR servers do, what waits for them; pause and resume."""

from typing import Annotated

import typer

from engine.ops.operations.destinations import DestinationView, ListDestinations, PauseDestination, ResumeDestination
from engine.ops.terminal.asking import asked
from engine.ops.terminal.options import DATA, Data, Json
from engine.ops.terminal.table import NEGATIVE, POSITIVE, cell, output, say_json, table

app = typer.Typer(help="List, pause and resume destinations.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The destination's name.")]


@app.command(name="list")
def list_(data: Data = DATA, as_json: Json = False) -> None:
    """List destinations: state, what is waiting and since when, what is held.

    Example: adt-engine destinations list --data /var/lib/adt-engine
    """
    rows = asked(data, ListDestinations)
    if as_json:
        say_json(rows)
        return
    headings = ("Destination", "State", "Reason", "Since (UTC)", "By", "Waiting #", "Oldest (UTC)", "Held #")
    output().print(table(headings, (_row(row) for row in rows)))


@app.command()
def pause(
    destination: Name,
    reason: Annotated[str, typer.Option(help="The reason, for whoever looks next.")] = "",
    data: Data = DATA,
) -> None:
    """Pause a destination until it is resumed, even after a restart; messages are accepted and wait.

    Example: adt-engine destinations pause interchange --reason "upgrade until 22:00" --data /var/lib/adt-engine
    """
    _say(asked(data, PauseDestination, destination=destination, reason=reason))


@app.command()
def resume(destination: Name, data: Data = DATA) -> None:
    """Resume delivery to a paused destination.

    Example: adt-engine destinations resume interchange --data /var/lib/adt-engine
    """
    _say(asked(data, ResumeDestination, destination=destination))


def _say(row: DestinationView) -> None:
    output().print(cell(f"{row.destination} is {row.state}; {row.waiting} wait, {row.held} are held"))


def _row(row: DestinationView) -> tuple[object, ...]:
    return (
        row.destination,
        cell(row.state, POSITIVE if row.state == "ready" else NEGATIVE),
        " ".join(filter(None, (row.reason, row.detail, *row.lacks))),
        _short(row.since),
        row.by,
        row.waiting,
        _short(row.oldest_received_at),
        row.held,
    )


def _short(moment: str | None) -> str:
    return (moment or "")[5:19].replace("T", " ")
