"""`adt-engine mappings schema`: JSON Schemas for editors, so that they complete and underline what authors write."""

from pathlib import Path
from typing import Annotated

import orjson
import typer

from engine.errors import UsageError
from engine.mapping.authoring.schema import EDITOR, schema_text, schemas
from engine.mapping.files.reference import nearest
from engine.ops.terminal.options import Json


def schema(
    name: Annotated[
        str, typer.Argument(help="mapping, resource, datatype, table or tests; all, if none is given.")
    ] = "",
    out: Annotated[Path | None, typer.Option("--out", help="Write all of them into this folder.")] = None,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema of a kind of file, or write all of them beside your mappings.

    An editor with YAML support finds it by the first line of a file, such as
    `# yaml-language-server: $schema=../schema/resource.json`.

    Example: adt-engine mappings schema --out my-mappings/schema
    """
    found = schemas()
    if name and name not in found:
        raise UsageError(f"there is no schema {name!r}; {nearest(name, found)}")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        for kind, one in found.items():
            (out / f"{kind}.json").write_text(schema_text(one), "utf-8")
    elif name:
        typer.echo(schema_text(found[name]), nl=False)
    elif as_json:
        typer.echo(orjson.dumps(found))
    else:
        for kind, one in found.items():
            typer.echo(f"{kind:<10} {one['title']}")
        typer.echo(f"print one by its name, or write all with --out DIR; first line of a file: {EDITOR}schema/...")
