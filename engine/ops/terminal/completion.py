"""What the Tab key offers besides commands: names of channels, destinations, states, reasons, pages."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from engine.errors import AdtEngineError
from engine.ops.operations.fields import STATES
from engine.ops.socket.client import ask_by_name
from engine.ops.views.handbook import PAGES
from engine.ops.views.reasons import REASONS
from engine.terminal.options import DATA

Offer = Callable[[typer.Context, str], list[str]]


def channels(context: typer.Context, incomplete: str) -> list[str]:
    """Return the channels of the running engine that begin so; none where none runs."""
    return _chosen((row["channel"] for row in _asked(context, "channels.list")), incomplete)


def destinations(context: typer.Context, incomplete: str) -> list[str]:
    """Return the destinations of the running engine that begin so; none where none runs."""
    return _chosen((row["destination"] for row in _asked(context, "destinations.list")), incomplete)


def states(_context: typer.Context, incomplete: str) -> list[str]:
    """Return the states of an entry that begin so."""
    return _chosen(map(str, STATES), incomplete)


def reasons(_context: typer.Context, incomplete: str) -> list[str]:
    """Return the codes of reasons that begin so."""
    return _chosen(iter(REASONS), incomplete)


def pages(_context: typer.Context, incomplete: str) -> list[str]:
    """Return the help pages that begin so."""
    return _chosen(iter(PAGES), incomplete)


# By the name of a request's field, on any command.
OF_FIELDS: Final[Mapping[str, Offer]] = {
    "channel": channels,
    "channels": channels,
    "destination": destinations,
    "state": states,
    "code": reasons,
}


def _chosen(names: Iterator[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _asked(context: typer.Context, operation: str) -> Any:
    """Return what the engine answers; an empty list where it cannot: nobody is shown an error for pressing a key."""
    folder = context.params.get("data") or DATA
    try:
        return ask_by_name(Path(folder), operation, {})
    except (ConnectionError, AdtEngineError):
        return []
