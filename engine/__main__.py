"""The command `adt-engine`: every command in one place; `python -m engine` is the same."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from engine import __version__
from engine.errors import AdtEngineError, ConfigurationError, UsageError
from engine.ops import channels, mappings, messages
from engine.ops.demo import demo
from engine.ops.doctor import doctor
from engine.ops.interchange import app as interchange
from engine.ops.run import run
from engine.ops.send import send

app = typer.Typer(
    name="adt-engine",
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


app.command()(demo)
app.command()(run)
app.command()(send)
app.command()(doctor)
app.add_typer(messages.app, name="messages")
app.add_typer(channels.app, name="channels")
app.add_typer(mappings.app, name="mappings")
app.add_typer(interchange, name="interchange")


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
