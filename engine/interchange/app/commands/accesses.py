"""`adt-engine interchange audit`: exports and verifies the service's access log, whether the service runs or not."""

import csv
import io
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import orjson
import typer

from engine.clock import now
from engine.errors import AdtEngineError, UsageError
from engine.interchange.core.audit.recorder import AccessLogProof, export_log, verify_log
from engine.interchange.store.access import AccessRow, Logged
from engine.interchange.store.place import place_of
from engine.interchange.store.transaction import EPOCH
from engine.terminal.options import DATABASE, AsJson, Database
from engine.terminal.table import print_json
from engine.terminal.table_file import plain

COLUMNS: Final = ("seq", "at", *AccessRow._fields[1:], "hash")
SHOWN_FAULTS: Final = 20


app = typer.Typer(help="Export and verify the service's access log.", no_args_is_help=True)


class OutputFormat(StrEnum):
    """How rows are written."""

    NDJSON = "ndjson"
    CSV = "csv"


@app.command()
def export(
    since: Annotated[str, typer.Option(help="From this moment on: 2025-07-01, or 2025-07-01T09:30:00Z.")] = "",
    until: Annotated[str, typer.Option(help="Before this moment.")] = "",
    form: Annotated[OutputFormat, typer.Option("--format", help="ndjson, or csv.")] = OutputFormat.NDJSON,
    to: Annotated[Path | None, typer.Option(help="The file to write, a new one; default: standard output.")] = None,
    database: Database = DATABASE,
) -> None:
    """Export rows of the access log, oldest first, one per line; the export itself is recorded as a row.

    Rows name patients by their ids in the service, and hold nothing else of them. CSV cells are escaped so that
    spreadsheets read none as a formula.

    Example: adt-engine interchange audit export --since 2025-07-01 --format csv --to july.csv
    """
    rows = export_log(place_of(database), _moment("since", since), _moment("until", until), now)
    lines = _lines(rows, form)
    if to is None:
        for line in lines:
            typer.echo(line, nl=False)
        return
    try:
        with os.fdopen(os.open(to, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
    except OSError as error:
        raise AdtEngineError(f"{to} cannot be written ({error.strerror}): name a file that is not there") from error
    typer.echo(f"written to {to}", err=True)


@app.command()
def verify(
    anchor: Annotated[str, typer.Option(help="What an earlier run ended with, NUMBER:HASH, kept elsewhere.")] = "",
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Verify that no row of the access log was changed, removed or moved; exit 1 and list the places if any was.

    It prints the last row's number and hash: keep them elsewhere, and give them with --anchor next time, or nobody can
    tell that rows were cut off the end.

    Example: adt-engine interchange audit verify --anchor 48211:9f2c… --database sqlite:///adt-data/interchange.db
    """
    proof = verify_log(place_of(database), anchor)
    if as_json:
        faults = [{"row": fault.seq, "text": fault.text} for fault in proof.faults]
        print_json({"rows": proof.rows, "faults": faults, "anchor": proof.anchor})
    else:
        _print(proof)
    if proof.faults:
        raise typer.Exit(1)


def _print(proof: AccessLogProof) -> None:
    typer.echo(f"{proof.rows} rows, {len(proof.faults)} faults")
    for fault in proof.faults[:SHOWN_FAULTS]:
        typer.echo(f"row {fault.seq}: {fault.text}")
    if proof.anchor:
        typer.echo(f"last row: {proof.anchor}")


def _moment(name: str, text: str) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--{name} {text}: expected a moment such as 2025-07-01 or 2025-07-01T09:30:00Z") from error
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _lines(rows: Iterator[Logged], form: OutputFormat) -> Iterator[bytes]:
    if form is OutputFormat.CSV:
        yield _csv(COLUMNS)
    for row in rows:
        at = (EPOCH + timedelta(milliseconds=row.access.at_ms)).isoformat(timespec="milliseconds")
        cells = (row.seq, at, *row.access[1:], row.hash.hex())
        yield _csv(cells) if form is OutputFormat.CSV else orjson.dumps(dict(zip(COLUMNS, cells, strict=True))) + b"\n"


def _csv(cells: tuple[object, ...]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\r\n").writerow([plain(cell) for cell in cells])
    return written.getvalue().encode()
