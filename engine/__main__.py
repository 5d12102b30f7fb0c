"""The command `adt-engine`: every command in one place; `python -m engine` is the same."""

import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer
from rich.console import Console

from engine import __version__
from engine.errors import AdtEngineError, ConfigurationError, UsageError
from engine.ops.lazily import Lazily


class Commands(Lazily):
    """The commands, each read at its first use."""

    where: ClassVar[Mapping[str, str]] = {
        "demo": "engine.ops.demo:demo",
        "run": "engine.ops.run:run",
        "send": "engine.ops.send:send",
        "simulate": "engine.ops.simulate:simulate",
        "doctor": "engine.ops.examine.doctor:doctor",
        "deploy": "engine.ops.deploy.printing:app",
        "messages": "engine.ops.messages:app",
        "lanes": "engine.ops.lanes:app",
        "channels": "engine.ops.channels:app",
        "destinations": "engine.ops.destinations:app",
        "alerts": "engine.ops.alerts:app",
        "journal": "engine.ops.journal:app",
        "mappings": "engine.ops.mappings:app",
        "users": "engine.ops.users:app",
        "audit": "engine.ops.audit:app",
        "reasons": "engine.ops.reasons:reasons",
        "interchange": "engine.ops.interchange:app",
    }


app = typer.Typer(
    name="adt-engine",
    cls=Commands,
    help="An HL7 v2 ADT to FHIR interface engine: every message journaled, answered, and delivered in order, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"adt-engine {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors of ours are one message on standard error, 2 for wrong use and 1 otherwise."""
    try:
        app()
    except (ConfigurationError, UsageError) as error:
        _say(error)
        sys.exit(2)
    except AdtEngineError as error:
        _say(error)
        sys.exit(1)


def _say(error: AdtEngineError) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(str(error), style="red", markup=False)


if __name__ == "__main__":
    main()
