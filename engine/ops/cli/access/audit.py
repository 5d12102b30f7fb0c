"""`adt-engine audit`: the audit trail, listed, exported, proved and anchored; it can be read without an engine."""

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
from engine.ops.operations.fields import entry_of
from engine.ops.terminal.asking import asked_if_running, asked_or_read
from engine.ops.terminal.options import DATA, Before, Data, Json, Since, Until
from engine.ops.terminal.table import NEGATIVE, POSITIVE, cell, errors, output, say_json, table
from engine.ops.views.auditing import AuditRow, Proof, exported, verified

app = typer.Typer(help="Read, verify and anchor the audit trail.", no_args_is_help=True)

COLUMNS: Final = ("Row #", "At (UTC)", "Who", "Role", "From", "Act", "Reason")
SHOWN_FAULTS: Final = 20

By = Annotated[str, typer.Option(help="Only of this account, token (token:NAME) or user.")]
ActName = Annotated[str, typer.Option("--act", help="Only of this act, or of a group of acts: users. (with the dot).")]
Outcome = Annotated[str, typer.Option(help="asked, refused or failed.")]
About = Annotated[int | None, typer.Option("--entry", metavar="ENTRY", parser=entry_of, help="Only about this entry.")]
Patient = Annotated[str, typer.Option(help="Only about this patient: value, or system|value.")]


@app.command(name="list")
def list_rows(
    actor: By = "",
    act: ActName = "",
    outcome: Outcome = "",
    entry: About = None,
    patient: Patient = "",
    since: Since = "",
    until: Until = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to show, newest first.")] = 50,
    before: Before = 0,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """List rows, newest first: who did what, from where, and what was refused.

    Example: adt-engine audit list --patient 4711 --since 2025-07-01 --data /var/lib/adt-engine
    """
    rows = asked_or_read(
        data, ListTrail, actor=actor, act=act, outcome=outcome, entry=entry, patient=patient, since=since, until=until,
        limit=limit, before=before,
    )  # fmt: skip
    if as_json:
        say_json(rows)
        return
    output().print(table(COLUMNS, (_row(row) for row in rows)))
    if len(rows) == limit:
        output().print(f"next page: --before {rows[-1].row}")


@app.command()
def export(
    actor: By = "",
    act: ActName = "",
    outcome: Outcome = "",
    entry: About = None,
    patient: Patient = "",
    since: Since = "",
    until: Until = "",
    form: Annotated[str, typer.Option("--format", help="ndjson, or csv.")] = "ndjson",
    to: Annotated[
        Path | None, typer.Option(help="The file to write, replaced if it exists; default: standard output.")
    ] = None,
    data: Data = DATA,
) -> None:
    """Export rows to a file, oldest first, one per line; the export itself is recorded as a row.

    CSV cells are escaped so that spreadsheets read none as a formula.

    Example: adt-engine audit export --since 2025-07-01 --format csv --to july.csv --data /var/lib/adt-engine
    """
    given = {
        "actor": actor, "act": act, "outcome": outcome, "entry": entry, "patient": patient, "since": since,
        "until": until, "format": form,
    }  # fmt: skip
    running = asked_if_running(data, ExportTrail, **given)
    chosen = ExportTrail.parse(given).chosen(data)
    lines = exported(data, chosen, form, None if running is None else running.upto)
    if to is None:
        for line in lines:
            typer.echo(line, nl=False)
        return
    try:
        with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
    except OSError as error:
        raise AdtEngineError(f"{to} cannot be written ({error.strerror}): name a file that is not there") from error
    errors().print(f"written to {to}", soft_wrap=True)


@app.command()
def verify(
    anchors: Annotated[Path | None, typer.Option(help="A file of anchors kept elsewhere.")] = None,
    key: Annotated[Path | None, typer.Option(help="The public key, as `audit key` prints it.")] = None,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Verify that no row was changed, removed, moved or cut off; exit 1 and list the places if any was.

    Without --anchors those in the data folder are used; whoever can write there could have made them anew.

    Example: adt-engine audit verify --anchors /mnt/elsewhere/audit-anchors.jsonl --data /var/lib/adt-engine
    """
    found = verified(data, anchors, None if key is None else read_public_key(key))
    if as_json:
        say_json(found)
    else:
        _say(found)
    if found.faults:
        raise typer.Exit(1)


@app.command()
def anchor(data: Data = DATA, as_json: Json = False) -> None:
    """Sign what the trail ends with, and add that to the anchors; the running engine does so by itself.

    Every 1,000 rows, every 10 minutes in which there are new ones, and when it stops.

    Example: adt-engine audit anchor --data /var/lib/adt-engine
    """
    made = asked_if_running(data, AnchorTrail)
    if made is None:
        made = _anchored(data)
    if as_json:
        say_json(made)
    else:
        output().print(f"row {made.seq} is anchored: {made.hash}", soft_wrap=True)


@app.command()
def key(data: Data = DATA) -> None:
    """Print the public key that verifies anchors, for whoever stores and checks them elsewhere.

    Example: adt-engine audit key --data /var/lib/adt-engine
    """
    if not data.is_dir():
        raise AdtEngineError(f"there is no data folder {data}: name another with --data")
    typer.echo(Anchors.of(data).public_pem(), nl=False)


def _anchored(data: Path) -> Anchor:
    with AuditReader(data) as reader:
        rows = reader.rows(AuditFilter(), 1)
    if not rows:
        raise AdtEngineError(f"the audit trail in {data} is empty: there is nothing to anchor")
    made = Anchors.of(data).add(rows[0].seq, bytes.fromhex(rows[0].hash), datetime.now(UTC))
    return Anchor.model_validate(asdict(made))


def _say(found: Proof) -> None:
    faults = found.faults
    console = output()
    if not faults:
        console.print(cell(f"{found.rows} rows, none changed, missing or moved", POSITIVE))
        if found.anchors:
            console.print(f"{found.agreed} anchors agree, the newest on row {found.anchored_to}")
        else:
            errors().print("there are no anchors, so rows cut off at the end would go unnoticed", style=NEGATIVE)
        return
    for fault in faults[:SHOWN_FAULTS]:
        console.print(cell(f"{fault.kind}: {fault.text}", NEGATIVE), soft_wrap=True)
    if len(faults) > SHOWN_FAULTS:
        console.print(f"and {len(faults) - SHOWN_FAULTS} more: --json shows them")


def _row(row: AuditRow) -> tuple[object, ...]:
    where = " ".join(part for part in (row.via, row.address) if part)
    act = row.act if row.entry is None else f"{row.act} {row.entry}"
    came_to: object = row.reason
    if row.outcome != "asked":
        of = f"row {row.follows} " if row.follows else ""
        came_to = cell(f"{of}{row.outcome}: {row.reason}", NEGATIVE)
    return (row.row, row.at[:19].replace("T", " "), row.actor, row.role, where, act, came_to)
