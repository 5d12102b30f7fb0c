"""`adt-engine audit`: the audit trail, listed, exported, verified and anchored; it can be read without an engine."""

import os
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from engine.errors import AdtEngineError
from engine.journal.access.audited import AuditFilter, AuditReader
from engine.ops.audit.anchors import Anchors, read_public_key
from engine.ops.operations.audit import Anchor, AnchorTrail, ExportTrail, ListTrail
from engine.ops.terminal.command import ask_if_running, ask_or_read, takes
from engine.ops.views.auditing import AuditRow, Proof, exported, verified
from engine.terminal.options import DATA, LIMIT, AsJson, Data
from engine.terminal.table import NEGATIVE, POSITIVE, cell, note, output, print_json, print_line, remark, table, utc

app = typer.Typer(help="Read, verify and anchor the audit trail.", no_args_is_help=True)

COLUMNS: Final = ("Row #", "At (UTC)", "Who", "Role", "From", "Act", "Reason")
SHOWN_FAULTS: Final = 20


@app.command(name="list")
@takes(ListTrail, limit=LIMIT)
def list_rows(request: ListTrail, data: Data = DATA, as_json: AsJson = False) -> None:
    """List rows, newest first: who did what, from where, and what was refused.

    Example: adt-engine audit list --patient 4711 --since 2025-07-01 --data /var/lib/adt-engine
    """
    rows = ask_or_read(data, request)
    if as_json:
        print_json(rows)
        return
    output().print(table(COLUMNS, (_row(row) for row in rows)))
    if len(rows) == request.limit:
        remark(f"next page: --before {rows[-1].row}")


@app.command()
@takes(ExportTrail, format=typer.Option("ndjson", help="ndjson, or csv."))
def export(
    request: ExportTrail,
    to: Annotated[
        Path | None, typer.Option(help="The file to write, replaced if it exists; default: standard output.")
    ] = None,
    data: Data = DATA,
) -> None:
    """Export rows to a file, oldest first, one per line; the export itself is recorded as a row.

    CSV cells are escaped so that spreadsheets read none as a formula.

    Example: adt-engine audit export --since 2025-07-01 --format csv --to july.csv --data /var/lib/adt-engine
    """
    running = ask_if_running(data, request)
    lines = exported(data, request.chosen(data), request.format, None if running is None else running.upto)
    if to is None:
        for line in lines:
            typer.echo(line, nl=False)
        return
    try:
        with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
    except OSError as error:
        raise AdtEngineError(f"{to} cannot be written ({error.strerror}): name a file that is not there") from error
    note(f"written to {to}")


@app.command()
def verify(
    anchors: Annotated[Path | None, typer.Option(help="A file of anchors kept elsewhere.")] = None,
    key: Annotated[Path | None, typer.Option(help="The public key, as `audit key` prints it.")] = None,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Verify that no row was changed, removed, moved or cut off; exit 1 and list the places if any was.

    Without --anchors those in the data folder are used; a person who can write there could have forged them.

    Example: adt-engine audit verify --anchors /mnt/elsewhere/audit-anchors.jsonl --data /var/lib/adt-engine
    """
    found = verified(data, anchors, None if key is None else read_public_key(key))
    (print_json if as_json else _print)(found)
    if found.faults:
        raise typer.Exit(1)


@app.command()
def anchor(data: Data = DATA, as_json: AsJson = False) -> None:
    """Sign what the trail ends with, and add that to the anchors; the running engine does so by itself.

    Every 1,000 rows, every 10 minutes in which there are new ones, and when it stops.

    Example: adt-engine audit anchor --data /var/lib/adt-engine
    """
    made = ask_if_running(data, AnchorTrail()) or _anchored(data)
    if as_json:
        print_json(made)
    else:
        print_line(f"row {made.seq} is anchored: {made.hash}")


@app.command()
def key(data: Data = DATA, as_json: AsJson = False) -> None:
    """Print the public key that verifies anchors, for the people who store and check them elsewhere.

    Example: adt-engine audit key --data /var/lib/adt-engine
    """
    if not data.is_dir():
        raise AdtEngineError(f"there is no data folder {data}: name another with --data")
    public = Anchors.of(data).public_pem()
    if as_json:
        print_json({"public_key": public})
    else:
        typer.echo(public, nl=False)


def _anchored(data: Path) -> Anchor:
    with AuditReader(data) as reader:
        rows = reader.rows(AuditFilter(), 1)
    if not rows:
        raise AdtEngineError(f"the audit trail in {data} is empty: there is nothing to anchor")
    made = Anchors.of(data).add(rows[0].seq, bytes.fromhex(rows[0].hash), datetime.now(UTC))
    return Anchor.model_validate(asdict(made))


def _print(found: Proof) -> None:
    faults = found.faults
    if not faults:
        print_line(f"{found.rows} rows, none changed, missing or moved", POSITIVE)
        if found.anchors:
            print_line(f"{found.agreed} anchors agree, the newest on row {found.anchored_to}")
        else:
            note("there are no anchors, so rows cut off at the end would go unnoticed", NEGATIVE)
        return
    for fault in faults[:SHOWN_FAULTS]:
        print_line(f"{fault.kind}: {fault.text}", NEGATIVE)
    if len(faults) > SHOWN_FAULTS:
        print_line(f"and {len(faults) - SHOWN_FAULTS} more: --json shows them")


def _row(row: AuditRow) -> tuple[object, ...]:
    where = " ".join(part for part in (row.via, row.address) if part)
    act = row.act if row.entry is None else f"{row.act} {row.entry}"
    came_to: object = row.reason
    if row.outcome != "asked":
        of = f"row {row.follows} " if row.follows else ""
        came_to = cell(f"{of}{row.outcome}: {row.reason}", NEGATIVE)
    return (row.row, utc(row.at), row.actor, row.role, where, act, came_to)
