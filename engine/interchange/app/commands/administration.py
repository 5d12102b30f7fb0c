"""`adt-engine interchange`: the service itself, tokens, passwords, configuration checked, database verified."""

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import orjson
import typer

from engine.clock import now
from engine.config.model import Placed, nearest
from engine.config.schema import SERVICE_FILES, schemas
from engine.config.service import Environment, ServiceConfiguration, reread
from engine.config.source import look, scan, validate
from engine.errors import UsageError
from engine.interchange.app.application import new_token
from engine.interchange.app.commands.interchange import Config
from engine.interchange.app.process import serve
from engine.interchange.network.patient360.connectors.configured import complaints
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.place import place_of
from engine.interchange.store.verify import verify
from engine.interchange.tokens.scope import FLAGS, WILDCARDS, right
from engine.interchange.tokens.vault import issue_locally
from engine.interchange.web.oauth.endpoint import token_answer
from engine.security.passwords import hash_password, weakness
from engine.telemetry import configure
from engine.terminal.faults import arm_as_asked
from engine.terminal.options import DATABASE, AsJson, Database, Offline, Strict, conclude, conclude_json
from engine.terminal.schemas import SchemaFolder, show_schemas
from engine.terminal.table import print_json

# The service does not start without its certificate; it starts without a client's secret.
TLS: Final = "tls."


def token(
    client: Annotated[str, typer.Option(help="The client the token is for.")],
    config: Config = None,
    scope: Annotated[str, typer.Option(help="Scopes, separated by spaces; default: all of the client's.")] = "",
    database: Database = DATABASE,
    yes: Annotated[bool, typer.Option("--yes", help="Allow it outside a sandbox too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole token response as JSON.")] = False,
) -> None:
    """Print an access token of a client, for local administrators.

    Example: adt-engine interchange token --config interchange.yaml --client engine
    """
    configuration = load(config)
    if configuration.environment is not Environment.SANDBOX and not yes:
        raise UsageError("this is a production service: add --yes if you really want a token")
    issued = issue_locally(configuration, place_of(database), client, scope, now, new_token)
    typer.echo(orjson.dumps(token_answer(issued)).decode() if as_json else issued.access)


def check_configuration(
    config: Config = None, offline: Offline = False, strict: Strict = False, as_json: AsJson = False
) -> None:
    """Check the service's configuration as its start does, and warn of what it would start without.

    All problems at once, each with file, line and column; exit 2 if there is one. Warnings (a client whose secret
    cannot be read, a scope that is none, a key that nothing obeys, a connector's server that cannot be asked) do not
    fail without --strict. Run it as the service's user, where the service runs; elsewhere with --offline.

    Example: adt-engine interchange check --config interchange.yaml
    """
    looked = look(scan(_named(config)), ServiceConfiguration)
    missing = () if offline else tuple(looked.ask("unavailable"))
    problems = (*looked.problems, *(one for one in missing if one.path.startswith(TLS)))
    warnings = [*looked.ask("warnings"), *looked.located(_no_scopes(looked.value))]
    if looked.value is not None and not offline:
        warnings += looked.located(iter(asyncio.run(complaints(looked.value))))
    warnings += (one for one in missing if not one.path.startswith(TLS))
    if as_json:
        conclude_json({"file": str(config)}, problems, warnings, strict=strict)
        return
    ended = conclude(problems, warnings, strict=strict)
    typer.echo(f"{config}: {ended}")


def _no_scopes(configuration: ServiceConfiguration | None) -> Iterator[Placed]:
    for name, client in configuration.clients.items() if configuration else ():
        for number, scope in enumerate(client.scopes):
            if right(scope) is None:
                expected = f"it grants nothing; {nearest(scope, {*WILDCARDS, *FLAGS})}"
                yield ("clients", name, "scopes", number), f"no scope {scope!r}", expected


def schema(out: SchemaFolder = None, as_json: AsJson = False) -> None:
    """Print the JSON Schema of the service's configuration, or write it beside yours.

    An editor with YAML support finds it by the first line of the file:
    `# yaml-language-server: $schema=schema/interchange.json`.

    Example: adt-engine interchange schema --out schema
    """
    show_schemas(schemas(SERVICE_FILES), "interchange", out, as_json=as_json)


def password(as_json: AsJson = False) -> None:
    """Print the argon2id hash of a password, for `password_hash` of a user in the configuration.

    Asks for it twice at a terminal, without showing it; otherwise takes the first line of standard input.

    Example: adt-engine interchange password
    """
    if sys.stdin.isatty():
        text = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if problem := weakness(text, "", totp=False):
        raise UsageError(problem)
    hashed = hash_password(text)
    if as_json:
        print_json({"password_hash": hashed})
    else:
        typer.echo(hashed)


def verify_database(database: Database = DATABASE, as_json: AsJson = False) -> None:
    """Verify a database: pages, bodies, and the index rows that its bodies should have; exit 1 for any fault.

    Reads only, also beside a running service. Counts by kind, and tells nothing of a patient.

    Example: adt-engine interchange verify --database sqlite:///adt-data/interchange.db
    """
    place = place_of(database)
    verification = verify(place, INDEXERS)
    if as_json:
        print_json({"resources": verification.resources, "faults": dict(verification.faults)})
    else:
        typer.echo(f"{verification.resources} resources, {sum(verification.faults.values())} faults")
        for kind, number in verification.faults.items():
            typer.echo(f"{kind}: {number}")
    if verification.faults:
        aside = "put this file aside" if isinstance(place, Path) else "rename this database"
        typer.echo(f"Stop the service, {aside}, and restore the last backup that verifies.", err=True)
        raise typer.Exit(1)


def load(config: Path | None) -> ServiceConfiguration:
    """Return the configuration in a file; ConfigurationError lists every problem in it."""
    return validate(scan(_named(config)), ServiceConfiguration)


def _named(config: Path | None) -> Path:
    if config is None:
        raise UsageError("name the configuration: --config FILE")
    return config


def run(config: Path | None, host: str, port: int, database: str) -> None:
    """Run the service of a configuration; a negative `port` means the port of its address."""
    configuration = load(config)
    configure()
    arm_as_asked()
    address = urlsplit(configuration.base_url)
    serve(
        configuration,
        host=host,
        port=(address.port if address.port is not None else 8080) if port < 0 else port,
        database=database,
        announce=lambda url: typer.echo(f"interchange ready at {url}"),
        reread=partial(_reread, config),
    )


def _reread(config: Path | None, running: ServiceConfiguration) -> ServiceConfiguration:
    return running if config is None else reread(scan(config), running)
