"""`adt-engine mappings`: check, try, test and explain what interface analysts write, without an engine or a server."""

from collections.abc import Mapping
from typing import ClassVar

import orjson
import typer
from rich.console import Console

from engine.errors import ConfigurationError
from engine.mapping.compile import load
from engine.ops.cli.mapping.authored import folders_of
from engine.ops.terminal.lazy_group import LazyGroup, nothing
from engine.ops.terminal.options import Json, MappingName, Mappings


class Tools(LazyGroup):
    """The commands on mappings; those that need more than the files stand in modules of their own."""

    where: ClassVar[Mapping[str, str]] = {
        "try": "engine.ops.cli.mapping.trial:try_",
        "test": "engine.ops.cli.mapping.trial:try_cases",
        "explain": "engine.ops.cli.mapping.explain:explain_",
        "diff": "engine.ops.cli.mapping.diff:diff",
        "coverage": "engine.ops.cli.mapping.coverage:coverage",
        "schema": "engine.ops.cli.mapping.schema:schema",
    }


app = typer.Typer(
    name="mappings",
    cls=Tools,
    callback=nothing,
    help="Check, try, test, explain and compare mappings.",
    no_args_is_help=True,
)


@app.command()
def check(mappings: Mappings = None, name: MappingName = "adt", as_json: Json = False) -> None:
    """Check every mapping file and report all problems, each with file, line and column.

    Exit 0 if there are none, 1 otherwise.

    Example: adt-engine mappings check --mappings mappings
    """
    try:
        found = load(folders_of(mappings), name)
    except ConfigurationError as error:
        if as_json:
            problems = [problem._asdict() for problem in error.problems]
            typer.echo(orjson.dumps({"mapping": name, "problems": problems}, option=orjson.OPT_INDENT_2))
        else:
            for problem in error.problems:
                _error(str(problem))
        raise typer.Exit(1) from error
    if as_json:
        typer.echo(orjson.dumps({"mapping": name, "hash": found.hash, "problems": []}, option=orjson.OPT_INDENT_2))
    else:
        documents = sum(1 for _ in found.documents.everything())
        typer.echo(f"{name}: {documents} files, no problems; {found.hash[:12]}")


def _error(text: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
