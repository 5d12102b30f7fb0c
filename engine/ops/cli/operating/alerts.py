"""`adt-engine alerts`: what somebody has to hear of, and who has acknowledged it."""

from typing import Final

import typer

from engine.ops.operations.alerts import AcknowledgeAlert, AlertView, ListAlerts
from engine.ops.terminal.command import asks
from engine.ops.views.incident import GRAVITY, Severity
from engine.terminal.table import NEGATIVE, cell, output, print_line, table, utc

app = typer.Typer(help="List and acknowledge alerts.", no_args_is_help=True)

COLUMNS: Final = (
    "Alert #", "Kind", "Severity", "Subject", "Since (UTC)", "Cleared (UTC)", "By", "Detail", "Next", "In words",
)  # fmt: skip


@app.command(name="list")
@asks(ListAlerts)
def list_(rows: list[AlertView]) -> None:
    """List open alerts: what each is about, since when, and what to do.

    Example: adt-engine alerts list --data /var/lib/adt-engine
    """
    if not output().is_terminal:
        output().print(table(COLUMNS, map(_row, rows)))
        return
    for row in sorted(rows, key=lambda row: (bool(row.cleared_at), GRAVITY[row.severity])):
        _print(row)
    if not rows:
        print_line("no open alerts")


@app.command()
@asks(AcknowledgeAlert, alert="ALERT")
def acknowledge(row: AlertView) -> None:
    """Acknowledge an alert; this clears one that cannot end by itself, such as a new source.

    Example: adt-engine alerts acknowledge 12 --data /var/lib/adt-engine
    """
    print_line(f"{row.kind} {row.subject}: {'cleared' if row.cleared_at else 'acknowledged'}")


def _what(row: AlertView) -> tuple[str, ...]:
    return row.acknowledged_by, row.detail, row.next_step, row.sentence


def _row(row: AlertView) -> tuple[object, ...]:
    since, cleared = utc(row.opened_at), utc(row.cleared_at)
    return row.id, row.kind, row.severity, row.subject, since, cleared, *_what(row)


def _print(row: AlertView) -> None:
    """Print one alert as a few lines, which fit any terminal; a pipe gets a table."""
    urgent = not row.cleared_at and row.severity is Severity.URGENT
    output().print(
        cell(f"{row.id:>4}  {row.sentence}", NEGATIVE if urgent else "bold"),
        cell("" if row.cleared_at else f" {row.severity.capitalize()}"),
        cell(f" since {utc(row.opened_at)[5:16]} UTC"),
        cell(f", cleared {utc(row.cleared_at)[5:16]}" if row.cleared_at else ""),
        cell(f", acknowledged by {row.acknowledged_by}" if row.acknowledged_by else ""),
        sep="",
        soft_wrap=True,
    )
    print_line(f"      {row.kind} {row.subject}{f': {row.detail}' if row.detail else ''}")
    print_line(f"      Next: {row.next_step}", "dim")
