"""The command `adt-engine`: every command in one place; `python -m engine` is the same."""

import sys
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from typer.core import TyperGroup

from engine import __version__
from engine.errors import AdtEngineError, ConfigurationError, UsageError

# Each stands in a module that is read when the command is called: an offline check need not wait for servers.
COMMANDS: Final = {
    "demo": "engine.ops.demo:demo",
    "run": "engine.ops.run:run",
    "send": "engine.ops.send:send",
    "simulate": "engine.ops.simulate:simulate",
    "doctor": "engine.ops.doctor:doctor",
    "messages": "engine.ops.messages:app",
    "channels": "engine.ops.channels:app",
    "mappings": "engine.ops.mappings:app",
    "interchange": "engine.ops.interchange:app",
}


class Commands(TyperGroup):
    """The commands, each read at its first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; None where there is none of the name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(module), name)
        holder = typer.Typer(callback=_root)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=cmd_name)
        else:
            holder.command(cmd_name)(found)
        return typer.main.get_group(holder).commands[cmd_name]


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
