"""`adt-engine destinations`: how FHIR servers and relays do, what waits for them; pause, resume and retry."""

import typer
from rich.text import Text

from engine.ops.cli.operating.status import state_of
from engine.ops.operations.destinations import (
    DestinationView,
    KeyView,
    ListDestinations,
    ListSettings,
    PauseDestination,
    ResumeDestination,
    RetryDestination,
)
from engine.ops.terminal.command import asks
from engine.ops.views.phrases import phrase
from engine.terminal.table import NEGATIVE, POSITIVE, cell, output, print_line, table, utc

app = typer.Typer(help="List, pause, resume and retry destinations; their settings.", no_args_is_help=True)


@app.command(name="list")
@asks(ListDestinations)
def list_(rows: list[DestinationView]) -> None:
    """List destinations: state, what is waiting and since when, what is held.

    Example: adt-engine destinations list --data /var/lib/adt-engine
    """
    headings = ("Destination", "Type", "State", "Reason", "Since (UTC)", "By", "Waiting #", "Oldest (UTC)", "Held #")
    output().print(table(headings, (_row(row) for row in rows)))


@app.command(name="settings")
@asks(ListSettings, destination="DESTINATION")
def settings(rows: list[KeyView]) -> None:
    """List the keys of a destination that are in force, and what set each; a secret only says that it is set.

    Example: adt-engine destinations settings interchange --data /var/lib/adt-engine
    """
    cells = ((one.key, one.value, one.origin, "" if one.origin == "default" else one.default) for one in rows)
    output().print(table(("Key", "Value", "Set by", "Otherwise"), (tuple(map(cell, row)) for row in cells)))


@app.command()
@asks(PauseDestination, destination="DESTINATION")
def pause(row: DestinationView) -> None:
    """Pause a destination until it is resumed, even after a restart; messages are accepted and wait.

    Example: adt-engine destinations pause interchange --reason "upgrade until 22:00" --data /var/lib/adt-engine
    """
    _print(row)


@app.command()
@asks(ResumeDestination, destination="DESTINATION")
def resume(row: DestinationView) -> None:
    """Resume delivery to a paused destination.

    Example: adt-engine destinations resume interchange --data /var/lib/adt-engine
    """
    _print(row)


@app.command()
@asks(RetryDestination, destination="DESTINATION")
def retry(row: DestinationView) -> None:
    """Try a destination that does not answer now, and all that waits for its next try there.

    Example: adt-engine destinations retry interchange --data /var/lib/adt-engine
    """
    print_line(f"{row.destination} is tried now; {row.waiting} waiting, {row.held} held")


def _print(row: DestinationView) -> None:
    print_line(f"{row.destination} is {phrase(row.state, 'destination')}; {row.waiting} waiting, {row.held} held")


def _row(row: DestinationView) -> tuple[object, ...]:
    return (
        row.destination,
        row.kind,
        state_of(row) if output().is_terminal else _state(row),
        " ".join(filter(None, (row.reason, row.detail, *row.lacks))),
        utc(row.since)[5:],
        row.by,
        row.waiting,
        utc(row.oldest_received_at)[5:],
        row.held,
    )


def _state(row: DestinationView) -> Text:
    return cell(phrase(row.state, "destination"), POSITIVE if row.state == "ready" else NEGATIVE)
