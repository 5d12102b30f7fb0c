"""`adt-engine alerts`: what somebody has to hear of, and who has taken care of it."""

from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer

from engine.ops.options import DATA, Data, Json
from engine.ops.running import asked
from engine.ops.table import NEGATIVE, cell, output, table

app = typer.Typer(help="List and acknowledge alerts.", no_args_is_help=True)


@app.command(name="list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Cleared ones too, the newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 100,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """List the alerts that are open: what it is about, since when, and what to do.

    Example: adt-engine alerts list --data /var/lib/adt-engine
    """
    rows = asked(data, "alerts.list", {"all": everything, "limit": limit})
    if as_json:
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    headings = ("Alert #", "Opened (UTC)", "Kind", "About", "Detail", "Cleared", "Taken care of by", "What to do next")
    output().print(table(headings, (_row(row) for row in rows)))


@app.command()
def acknowledge(alert: Annotated[int, typer.Argument(help="The alert's number.", min=1)], data: Data = DATA) -> None:
    """Say that you have taken care of an alert; what cannot end by itself, such as a new source, is cleared by that.

    Example: adt-engine alerts acknowledge 12 --data /var/lib/adt-engine
    """
    row = asked(data, "alerts.acknowledge", {"alert": alert})
    output().print(cell(f"{row['kind']} {row['subject']}: {'cleared' if row['cleared_at'] else 'acknowledged'}"))


def _row(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["id"],
        _short(row["opened_at"]),
        cell(row["kind"], "" if row["cleared_at"] or row["can_wait"] else NEGATIVE),
        row["subject"],
        row["detail"],
        _short(row["cleared_at"]),
        row["acknowledged_by"],
        row["next_step"],
    )


def _short(moment: str | None) -> str:
    return (moment or "")[5:16].replace("T", " ")
