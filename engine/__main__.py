"""The command `adt-engine`: every command in one place; `python -m engine` is the same."""

import errno
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, ClassVar, Final, NoReturn

import typer
from rich.console import Console

from engine import __version__
from engine.database.connection import refusal_of
from engine.database.sqlite import SqliteError, failure_of
from engine.errors import AdtEngineError, ConfigurationError, JournalRefusedError, UsageError, place_of
from engine.terminal.lazy_group import LazyGroup


class Commands(LazyGroup):
    """The commands, each read at its first use."""

    where: ClassVar[Mapping[str, str]] = {
        "demo": "engine.ops.demo.demo:demo",
        "run": "engine.ops.cli.running.run:run",
        "send": "engine.ops.cli.sending.send:send",
        "simulate": "engine.ops.cli.sending.simulate:simulate",
        "doctor": "engine.ops.cli.examine.doctor:doctor",
        "deploy": "engine.ops.cli.deploy.printing:app",
        "messages": "engine.ops.cli.messages.messages:app",
        "lanes": "engine.ops.cli.messages.lanes:app",
        "patients": "engine.ops.cli.messages.patients:app",
        "duplicates": "engine.ops.cli.messages.duplicates:app",
        "channels": "engine.ops.cli.operating.channels:app",
        "destinations": "engine.ops.cli.operating.destinations:app",
        "alerts": "engine.ops.cli.operating.alerts:app",
        "journal": "engine.ops.cli.operating.journal:app",
        "nodes": "engine.ops.cli.operating.nodes:app",
        "mappings": "engine.ops.cli.mapping.mappings:app",
        "users": "engine.ops.cli.access.users:app",
        "audit": "engine.ops.cli.access.audit:app",
        "reasons": "engine.ops.cli.operating.help:reasons",
        "help": "engine.ops.cli.operating.help:help_",
        "interchange": "engine.interchange.app.commands.interchange:app",
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
        segment = import_module("engine.hl7.segment").__file__ or ""
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
