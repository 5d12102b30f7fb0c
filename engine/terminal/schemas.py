"""Commands that print or write JSON Schemas, so that editors complete and underline what authors write."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.config.model import nearest
from engine.config.schema import EDITOR, schema_text, write_schemas
from engine.errors import UsageError
from engine.terminal.table import output, print_json, remark, table

SchemaFolder = Annotated[Path | None, typer.Option("--out", help="Write all of them into this folder.")]


def show_schemas(found: Mapping[str, Any], name: str, out: Path | None, *, as_json: bool) -> None:
    """Print the schema of a name, write all of them into a folder, or list them; UsageError for an unknown name."""
    if name and name not in found:
        raise UsageError(f"there is no schema {name!r}; {nearest(name, found)}")
    if out is not None:
        write_schemas(found, out)
        if as_json:
            print_json({"files": [str(out / f"{kind}.json") for kind in found]})
    elif name:
        typer.echo(schema_text(found[name]), nl=False)
    elif as_json:
        print_json(found)
    else:
        output().print(table(("Schema", "Of"), ((kind, one["title"]) for kind, one in found.items())))
        remark(f"print one by its name, or write all with --out DIR; first line of a file: {EDITOR}schema/...")
