"""`adt-engine mappings import`: a CSV export, a ConceptMap or a ValueSet as a table of a mapping folder."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import UsageError
from engine.mapping.authoring.imported_table import NAME, ImportedTable, ImportOptions, imported, table_files
from engine.mapping.files.document import TABLE, Problems, read_document
from engine.mapping.language.check_table import check_table
from engine.ops.cli.mapping.mappings import bytes_of
from engine.terminal.options import AsJson
from engine.terminal.table import note, print_json, print_line


def import_table(
    file: Annotated[Path, typer.Argument(help="A CSV file with a header, or a ConceptMap or ValueSet as .json.")],
    out: Annotated[Path, typer.Option("--out", help="The mapping folder; files go to its tables/.", metavar="DIR")],
    name: Annotated[str, typer.Option("--name", help="What the table is called; else after the file.")] = "",
    system: Annotated[str, typer.Option("--system", help="The system (URI) of its FHIR codes.")] = "",
    source: Annotated[str, typer.Option("--source", help="Where the codes are from; else what the file says.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Their licence; else what the file says.")] = "",
    key: Annotated[
        list[str] | None, typer.Option("--key", help="The CSV column of the code in messages; several: all its keys.")
    ] = None,
    code: Annotated[str, typer.Option("--code", help="The CSV column of the FHIR code.")] = "",
    display: Annotated[str, typer.Option("--display", help="The CSV column of its display.")] = "",
    delimiter: Annotated[str, typer.Option("--delimiter", help="What separates CSV cells; else found out.")] = "",
    group: Annotated[
        str, typer.Option("--group", help="Of a ConceptMap, only the groups of this source system (URI).")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    as_json: AsJson = False,
) -> None:
    r"""Import a code table: from a CSV file, a ConceptMap or a ValueSet (JSON) to tables/NAME.yaml and NAME.csv.

    The table has the source, licence and date of the resource, or of the options and today. Without options a CSV
    file's first column is the code in messages, the second the FHIR code and the third its display. Nothing is
    written where a row is wrong. Exit 0, or 2 where nothing was written.

    Example: adt-engine mappings import beds.csv --out my-mappings --source "bed list" --licence internal
    """
    delimiter = "\t" if delimiter in {"\\t", "tab"} else delimiter
    if len(delimiter) > 1:
        raise UsageError(f"--delimiter {delimiter} is not one character; give one such as ;")
    made = imported(bytes_of(file), str(file), ImportOptions(tuple(key or ()), code, display, delimiter, group))
    name = name or made.name or "-".join(file.stem.lower().split())
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a table; give --name with small letters, digits and hyphens")
    made = _said(made, file, source, licence, system)
    _write(out, name, table_files(made, name), force=force)
    if as_json:
        print_json({"table": name, "rows": len(made.rows), "keys": len(made.keys), "notes": list(made.notes)})
        return
    for text in made.notes:
        note(text)
    print_line(f"{name}: {len(made.rows):,} rows; use it as: PATH | concept({_call(name, made)})")


def _call(name: str, made: ImportedTable) -> str:
    return " ".join((name, *("PATH" for _ in made.keys[1:])))


def _said(made: ImportedTable, file: Path, source: str, licence: str, system: str) -> ImportedTable:
    """Return a table with what the options say; UsageError without a licence."""
    if not (licence or made.licence):
        raise UsageError("the file names no licence of its codes; give --licence, such as --licence internal")
    return replace(
        made,
        source=source or made.source or file.name,
        licence=licence or made.licence,
        date=made.date or datetime.now(UTC).date().isoformat(),
        system=system or made.system,
    )


def _write(out: Path, name: str, files: dict[str, str], *, force: bool) -> None:
    """Write checked files; UsageError where one is there already, is not valid, or cannot be written."""
    there = [out / path for path in files if (out / path).exists()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already; give another --name, or write over it with --force")
    problems = Problems()
    edited = {out / path: text for path, text in files.items()}
    document = read_document([out], Path("tables", f"{name}.yaml"), TABLE, problems, edited)
    if document is None or problems.found or not check_table(document, problems):
        raise UsageError("\n".join(map(str, problems.found)) or f"{name} cannot be read; give another --name")
    for path, text in files.items():
        try:
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            (out / path).write_text(text, "utf-8", newline="")
        except OSError as error:
            raise UsageError(f"{out / path} cannot be written ({error.strerror}); name another folder") from error
        note(f"wrote {out / path}")
