"""`adt-engine messages export`: messages into a file or a folder, with a reason that the audit trail keeps."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from engine.errors import UsageError
from engine.ops.operations.filters import Search, SearchFilter
from engine.ops.operations.messages import ExportMessages
from engine.ops.terminal.command import ask, takes
from engine.ops.views.exporting import COLUMNS, ExportedRow, bytes_of, csv_line, ndjson_line
from engine.terminal.options import DATA, AsJson, Data
from engine.terminal.table import print_json, print_line, progress

FORMS: Final = ("ndjson", "csv", "hl7")
HEADINGS: Final = (",".join(COLUMNS) + "\r\n").encode()

Write = Callable[[ExportedRow], None]


@takes(SearchFilter, reason="--entry-reason")
def export(
    filters: SearchFilter,
    to: Annotated[Path, typer.Option("--to", help="A new file, or for hl7 a new or empty folder.")],
    why: Annotated[str, typer.Option("--reason", help="The reason for the export; recorded in the audit trail.")],
    form: Annotated[str, typer.Option("--format", help="ndjson, csv, or hl7: one file per message.")] = "ndjson",
    most: Annotated[int, typer.Option("--limit", min=1, help="At most this many, newest first.")] = 10_000,
    data: Data = DATA,
    as_json: AsJson = False,
) -> None:
    """Export whole messages from the journal of a running engine, with what became of them. They hold patient data.

    What is written can be read by nobody else on this machine. The bytes in an hl7 folder are those that came in.

    Example: adt-engine messages export --to july.ndjson --reason "ticket 4711" --since 7d --data /var/lib/adt-engine
    """
    if form not in FORMS:
        raise UsageError(f"--format {form} is none of {', '.join(FORMS)}")
    rows = _rows(data, Search.parse(filters.given()), why, most)
    with ExitStack() as stack:
        first = next(rows, None)
        write = _folder(to) if form == "hl7" else _file(to, form, stack)
        count = _written(first, rows, write, most, shown=not as_json)
    if as_json:
        print_json({"messages": count, "to": str(to)})
    else:
        print_line(f"{count} messages written to {to}")


def _written(first: ExportedRow | None, rows: Iterator[ExportedRow], write: Write, most: int, *, shown: bool) -> int:
    count = 0
    with progress(shown=shown) as bar:
        task = bar.add_task("messages", total=most)
        row = first
        while row is not None:
            write(row)
            count += 1
            bar.advance(task)
            row = next(rows, None)
    return count


def _rows(data: Path, chosen: Search, reason: str, most: int) -> Iterator[ExportedRow]:
    before, left = 0, most
    while left:
        page = ask(data, ExportMessages(filter=chosen, reason=reason, before=before, limit=left))
        yield from page.entries
        left, before = left - len(page.entries), page.before or 0
        if not before:
            return


def _file(to: Path, form: str, stack: ExitStack) -> Write:
    try:
        file = stack.enter_context(_made(to))
    except OSError as error:
        raise UsageError(f"{to} cannot be created ({error.strerror}): name a new file with --to") from error
    line = csv_line if form == "csv" else ndjson_line
    if form == "csv":
        file.write(HEADINGS)

    def write(row: ExportedRow) -> None:
        file.write(line(row))

    return write


def _folder(to: Path) -> Write:
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_used = any(to.iterdir())
    except OSError as error:
        raise UsageError(f"{to} cannot be created ({error.strerror}): name a new folder with --to") from error
    if is_used:
        raise UsageError(f"{to} is not empty: name a new or empty folder with --to")

    def write(row: ExportedRow) -> None:
        with _made(to / f"{row.entry}.hl7") as file:
            file.write(bytes_of(row))

    return write


def _made(path: Path) -> BinaryIO:
    """Make a file that only its owner may read."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
