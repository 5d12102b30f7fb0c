"""The command `adt-engine`: every command in one place; `python -m engine` is the same."""

import errno
import sys
from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, NoReturn

import typer
from rich.console import Console

from engine import __version__
from engine.database.connection import refusal_of
from engine.database.sqlite import SqliteError, failure_of
from engine.errors import AdtEngineError, ConfigurationError, JournalRefusedError, UsageError, place_of
from engine.ops.cli.commands import COMMANDS
from engine.terminal.lazy_group import Command, LazyGroup, load


class Commands(LazyGroup):
    """The commands of the engine, and the one of the service."""

    table: ClassVar[Mapping[str, Command]] = {
        **COMMANDS,
        "interchange": Command(
            "Run the Clinical Data Interchange Service until it is stopped; SIGHUP reads its configuration again.",
            "engine.interchange.app.commands.interchange:app",
        ),
    }


app = typer.Typer(
    name="adt-engine",
    cls=Commands,
    help="An HL7 v2 ADT to FHIR interface engine: every message journaled, answered, and delivered in order, once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Every command within takes it over.
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        segment = load("engine.hl7.segment:__file__")
        typer.echo(f"adt-engine {__version__}{'' if segment.endswith('.py') else ', compiled'}")
        raise typer.Exit


@app.callback()
def _root(
    _shown: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


# What to do about what the system says of a file.
FIXES: Final[Mapping[int | None, str]] = {
    errno.EACCES: "run this as the user who may, usually the engine's, or name another place",
    errno.EPERM: "run this as the user who may, usually the engine's, or name another place",
    errno.ENOSPC: "free space on that disk, then try again",
    errno.EDQUOT: "free space on that disk, then try again",
    errno.EROFS: "name a place that can be written",
}


def main() -> None:
    """Run the command line; whatever goes wrong is one message on standard error, 2 for wrong use and 1 otherwise."""
    try:
        app()
    except (ConfigurationError, UsageError) as error:
        _end(str(error), 2)
    except AdtEngineError as error:
        _end(str(error), 1)
    except OSError as error:
        what = f"{error.filename} cannot be used" if error.filename else "the system refused it"
        _end(f"{what} ({error.strerror}): {FIXES.get(error.errno, 'fix that, then try again')}", 1)
    except SqliteError as error:
        _end(f"the journal cannot be read ({failure_of(error)}): see `adt-engine journal verify`", 1)
    except Exception as error:  # noqa: BLE001 - the last resort: its text may hold anything, a patient's data as well
        if code := refusal_of(error):
            _end(str(JournalRefusedError(code)), 1)
        _end(f"a fault of adt-engine ({type(error).__name__} at {place_of(error)}): report this line", 1)


def _end(text: str, code: int) -> NoReturn:
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, style="red", markup=False)
    sys.exit(code)


if __name__ == "__main__":
    main()
