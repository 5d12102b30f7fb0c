"""`adt-engine interchange`: the Clinical Data Interchange Service, and the table of its commands."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Final

import typer

from engine.errors import UsageError
from engine.terminal.lazy_group import Command, LazyGroup, load
from engine.terminal.options import DATABASE, Database

Config = Annotated[Path | None, typer.Option("--config", help="The service's configuration (YAML or JSON).")]

AUDIT: Final = {
    "export": Command(
        "Export rows of the access log, oldest first, one per line; the export itself is recorded as a row.",
    ),
    "verify": Command(
        "Verify that no row of the access log was changed, removed or moved; exit 1 and list the places if any was.",
    ),
}
COMPENDIUM: Final = {
    "check": Command(
        "Check laboratories' files, and the tables that they name, and report all problems with file, line and column.",
    ),
    "load": Command(
        "Load a laboratory's file: its Organization, its tests and their questions, beside a running service "
        "or without.",
    ),
    "show": Command(
        "Show which laboratories' tests are kept; of one laboratory its tests, of one test its questions.",
    ),
}
JOBS: Final = {
    "list": Command(
        "List the jobs, oldest first: those that have not ended, and those that ended within the last day.",
    ),
    "show": Command(
        "Show a job: what it is, where it is, how often it was taken up, and why it failed; neither question "
        "nor result.",
    ),
    "cancel": Command(
        "Cancel a job that has not ended; a service that works on it stops soon. The access log has a row of it.",
    ),
}
ORDERS: Final = {
    "list": Command(
        "List orders in the order of placing: those that wait, are being sent or are held, and those that "
        "were refused.",
    ),
    "show": Command(
        "Show an order: where it is, each time that it was sent with what was answered, and its versions; no "
        "more of it.",
    ),
    "retry": Command(
        "Let an order be sent again that is held. It bears the same control id; the access log has a row of it.",
    ),
    "cancel": Command(
        "Take an order back that waits or is held, and cancel it. The access log has a row of it.",
    ),
}
WEBHOOKS: Final = {
    "list": Command(
        "List events, the last thousand: those that wait, and those that were dropped after six attempts.",
    ),
    "show": Command(
        "Show an event: whose it is, where it goes, and each time that it was sent with what came of it; not its body.",
    ),
    "retry": Command(
        "Send an event again that was given up, with six attempts; one that waits is sent at once.",
    ),
}

COMMANDS: Final[Mapping[str, Command]] = {
    "simulate": Command(
        "Simulate clinical charts: one R4 transaction Bundle per invented person, to be posted to a sandbox's base.",
        "engine.interchange.app.commands.charts:simulate",
    ),
    "token": Command(
        "Print an access token of a client, for local administrators.",
        "engine.interchange.app.commands.administration:token",
    ),
    "check": Command(
        "Check the service's configuration as its start does, and warn of what it would start without.",
        "engine.interchange.app.commands.administration:check_configuration",
    ),
    "schema": Command(
        "Print the JSON Schema of the service's configuration, or write it beside yours.",
        "engine.interchange.app.commands.administration:schema",
    ),
    "password": Command(
        "Print the argon2id hash of a password, for `password_hash` of a user in the configuration.",
        "engine.interchange.app.commands.administration:password",
    ),
    "verify": Command(
        "Verify a database: pages, bodies, and the index rows that its bodies should have; exit 1 for any fault.",
        "engine.interchange.app.commands.administration:verify_database",
    ),
    "audit": Command(
        "Export and verify the service's access log.",
        "engine.interchange.app.commands.accesses:app",
        AUDIT,
    ),
    "compendium": Command(
        "Check and load laboratories' tests, and show what is kept of them.",
        "engine.interchange.app.commands.compendium:app",
        COMPENDIUM,
    ),
    "jobs": Command(
        "List, show and cancel the service's jobs.",
        "engine.interchange.app.commands.jobs:app",
        JOBS,
    ),
    "orders": Command(
        "List, show, send again and take back orders to laboratories.",
        "engine.interchange.app.commands.orders:app",
        ORDERS,
    ),
    "webhooks": Command(
        "List and show events for subscribers, and send them again.",
        "engine.interchange.app.commands.webhooks:app",
        WEBHOOKS,
    ),
}


class ServiceCommands(LazyGroup):
    """The commands of the service."""

    table: ClassVar[Mapping[str, Command]] = COMMANDS


app = typer.Typer(cls=ServiceCommands, invoke_without_command=True)


@app.callback()
def interchange(
    context: typer.Context,
    config: Config = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=-1, max=65535, help="-1: the port of base_url, else 8080; 0: a free one.")
    ] = -1,
    database: Database = DATABASE,
) -> None:
    """Run the Clinical Data Interchange Service until it is stopped; SIGHUP reads its configuration again.

    Log lines are JSON on standard error. Exit 0 after SIGTERM or Ctrl-C, 2 if a file or option is wrong, 1 if it cannot
    start.

    Example: adt-engine interchange --config interchange.yaml --database sqlite:///adt-data/interchange.db
    """
    if context.invoked_subcommand is not None:
        _refuse_before(context, context.invoked_subcommand)
        return
    load("engine.interchange.app.commands.administration:run")(config, host, port, database)


def _refuse_before(context: typer.Context, command: str) -> None:
    """Refuse options before the name of a command: they would not reach it, and it would use another database."""
    for name in ("config", "database", "host", "port"):
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT":
            raise UsageError(
                f"write --{name} after {command}, or leave it out: adt-engine interchange {command} --help"
            )
