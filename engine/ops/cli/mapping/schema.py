"""`adt-engine mappings schema`: JSON Schemas for editors, so that they complete and underline what authors write."""

from typing import Annotated

import typer

from engine.mapping.authoring.schema import schemas
from engine.terminal.options import AsJson
from engine.terminal.schemas import SchemaFolder, show_schemas


def schema(
    name: Annotated[
        str, typer.Argument(help="mapping, resource, datatype, table or tests; all, if none is given.")
    ] = "",
    out: SchemaFolder = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a kind of file, or write all of them into the folder of your mappings.

    An editor with YAML support finds it by the first line of a file, such as
    `# yaml-language-server: $schema=../schema/resource.json`.

    Example: adt-engine mappings schema --out my-mappings/schema
    """
    show_schemas(schemas(), name, out, as_json=as_json)
