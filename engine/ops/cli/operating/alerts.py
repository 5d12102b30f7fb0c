"""`adt-engine alerts`: what somebody has to hear of, and who has taken care of it."""

from typing import Annotated

import typer

from engine.ops.operations.alerts import AcknowledgeAlert, AlertView, ListAlerts
from engine.ops.operations.fields import alert_of
from engine.ops.terminal.asking import asked
from engine.ops.terminal.options import DATA, Data, Json
from engine.ops.terminal.table import NEGATIVE, cell, output, say_json

app = typer.Typer(help="List and acknowledge alerts.", no_args_is_help=True)

Number = Annotated[int, typer.Argument(metavar="ALERT", parser=alert_of, help="The alert's number.")]


@app.command(name="list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Include cleared alerts, newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """List open alerts: what each is about, since when, and what to do.

    Example: adt-engine alerts list --data /var/lib/adt-engine
    """
    rows = asked(data, ListAlerts, all=everything, limit=limit)
    if as_json:
        say_json(rows)
        return
    for row in rows:
        _print(row)
    if not rows:
        output().print("no open alerts")


@app.command()
def acknowledge(alert: Number, data: Data = DATA) -> None:
    """Acknowledge an alert; this clears one that cannot end by itself, such as a new source.

    Example: adt-engine alerts acknowledge 12 --data /var/lib/adt-engine
    """
    row = asked(data, AcknowledgeAlert, alert=alert)
    output().print(cell(f"{row.kind} {row.subject}: {'cleared' if row.cleared_at else 'acknowledged'}"))


def _print(row: AlertView) -> None:
    """Write one alert as a few lines, which fit any terminal."""
    console = output()
    urgent = not row.cleared_at and not row.can_wait
    console.print(
        cell(f"{row.id:>4}  {row.kind}", NEGATIVE if urgent else "bold"),
        cell(f"  {row.subject}, since {_short(row.opened_at)} UTC"),
        cell(f", cleared {_short(row.cleared_at)}" if row.cleared_at else ""),
        cell(f", taken care of by {row.acknowledged_by}" if row.acknowledged_by else ""),
        sep="",
        soft_wrap=True,
    )
    if row.detail:
        console.print(cell(f"      {row.detail}"), soft_wrap=True)
    console.print(cell(f"      Next: {row.next_step}", "dim"), soft_wrap=True)


def _short(moment: str | None) -> str:
    return (moment or "")[5:16].replace("T", " ")
