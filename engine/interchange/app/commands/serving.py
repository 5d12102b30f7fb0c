"""`adt-engine interchange` without a command: the Clinical Data Interchange Service, until it is stopped."""

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import typer

from engine.config.service import ServiceConfiguration, reread
from engine.config.source import scan
from engine.interchange.app.commands.administration import load
from engine.interchange.app.http.process import serve
from engine.telemetry import configure
from engine.terminal.faults import arm_as_asked


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
