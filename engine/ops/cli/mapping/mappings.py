"""`adt-engine mappings`: check, try, test and explain what interface analysts write, without an engine or a server."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Console

from engine.config.channel import Channel, Mode
from engine.config.settings import shipped
from engine.config.source import AuthoredFile, read, validate
from engine.errors import ConfigurationError, UsageError
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.cost import Costs
from engine.mapping.authoring.negation import Negations
from engine.mapping.authoring.schema import schemas
from engine.mapping.compile import load
from engine.mapping.files.reference import nearest
from engine.mapping.files.undecided import undecided_in
from engine.ops.cli.mapping.costing import costs_as_json, print_costs
from engine.terminal.options import AsJson, MappingName, Mappings
from engine.terminal.schemas import SchemaFolder, show_schemas
from engine.terminal.table import print_json

OfChannel = Annotated[Path | None, typer.Option("--channel", help="Map as on the channel of this file.")]
Cost = Annotated[bool, typer.Option("--cost", help="Show the worst case of each event and resource file.")]
MappingOf = Annotated[str, typer.Option("--name", help="The mapping; by default the channel's own.")]
AtDestination = Annotated[
    str,
    typer.Option(
        "--destination", metavar="NAME", help="By the mapping, or the edit, of this destination of the channel."
    ),
]
MESSAGES: Final = re.compile(rb"(?:\A|[\r\n\x0b\x1c]+)(?=MSH[^A-Za-z0-9\s])")
AROUND: Final = b"\x0b\x1c\r\n"
# Segments of a batch and of a file of batches, which belong to no message.
ENVELOPE: Final = frozenset({b"FHS", b"BHS", b"BTS", b"FTS"})


def check(
    mappings: Mappings = None,
    name: MappingName = "adt",
    channel: OfChannel = None,
    cost: Cost = False,
    as_json: AsJson = False,
) -> None:
    """Check every mapping file and report all problems, each with file, line and column.

    Exit 0 if there are none, 1 otherwise. Lines that cost too much in the worst case are warned of, negative
    comparisons of what a message need not have, and what a draft left undecided; for a channel that is not in shadow
    mode (--channel) the last is an error.

    Example: adt-engine mappings check --mappings mappings
    """
    live = channel is not None and channel_in(channel).mode is not Mode.SHADOW
    try:
        found = load(folders_of(mappings), name)
    except ConfigurationError as error:
        show_problems(name, error, as_json=as_json)
        raise typer.Exit(1) from error
    undecided = tuple(undecided_in(found.documents))
    if live and undecided:
        show_problems(name, ConfigurationError(undecided), as_json=as_json)
        raise typer.Exit(1)
    costs = Costs(found)
    warnings = sorted((*costs.warnings(), *Negations(found.documents).warnings(), *undecided))
    if as_json:
        report = {"mapping": name, "hash": found.hash, "problems": [], "warnings": [one._asdict() for one in warnings]}
        print_json(report | ({"cost": costs_as_json(costs)} if cost else {}))
        return
    for warning in warnings:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"warning: {warning}", markup=False)
    if cost:
        print_costs(costs)
    documents = sum(1 for _ in found.documents.everything())
    typer.echo(f"{name}: {documents} files, no problems; {found.hash[:12]}")


def show_problems(name: str, error: ConfigurationError, *, as_json: bool) -> None:
    """Print what is wrong with a mapping: as JSON, or a line each on standard error."""
    if as_json:
        print_json({"mapping": name, "problems": [problem._asdict() for problem in error.problems]})
        return
    for problem in error.problems:
        Console(stderr=True, highlight=False, soft_wrap=True).print(str(problem), markup=False)


def folders_of(mappings: Path | None) -> list[Path]:
    """Return the folders that mapping files are looked for in, the shipped one last; UsageError for what is none."""
    if mappings is not None and not mappings.is_dir():
        raise UsageError(f"{mappings} is not a folder; --mappings takes a folder of mapping files")
    return [folder for folder in (mappings, shipped("mappings")) if folder is not None]


def messages_in(file: Path) -> Iterator[bytes]:
    """Yield the messages of a file, whatever ends its lines; all of it where there is none. UsageError: unreadable."""
    yield from messages_of(bytes_of(file))


def bytes_of(file: Path) -> bytes:
    """Return what a file holds; UsageError where it cannot be read."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from error


def messages_of(raw: bytes) -> Iterator[bytes]:
    """Yield the messages in bytes, without MLLP and batch around them; all of the bytes where there is none."""
    parts = (_bare(part.strip(AROUND)) for part in MESSAGES.split(raw))
    yield from [part for part in parts if part.startswith(b"MSH")] or [raw]


def _bare(message: bytes) -> bytes:
    """Return a message without what ends its batch and begins the next one."""
    end = max(message.rfind(b"\r"), message.rfind(b"\n"))
    while end > 0 and message[end + 1 : end + 4] in ENVELOPE:
        message = message[:end].rstrip(AROUND)
        end = max(message.rfind(b"\r"), message.rfind(b"\n"))
    return message


def channel_in(file: Path | None) -> Channel:
    """Return the channel of a file, or one that allows everything."""
    return validate(read(file), Channel) if file else channel_of({})


class ChosenMapping(NamedTuple):
    """A mapping by its name, and the channel as it is compiled for: `channel` has it as its mapping."""

    name: str
    channel: Channel


def chosen_mapping(channel: Channel, file: Path | None, name: str, destination: str) -> ChosenMapping:
    """Return the mapping that options choose: by its name, of a channel's destination, else the channel's own.

    UsageError where they do not go together, or the channel has no such destination.
    """
    if not destination:
        return ChosenMapping(name or channel.mapping, channel)
    if file is None or name:
        raise UsageError("--destination needs --channel with the file that names it, and no --name")
    names = [one.name for one in channel.destinations]
    if destination not in names:
        raise UsageError(f"{file} has no destination {destination!r}; {nearest(destination, names)}")
    on = channel.at(destination)
    return ChosenMapping(on.mapping, on)


def check_server(channel: Channel, destination: str) -> None:
    """UsageError where a destination of a channel is a relay, which has no mapping."""
    if destination in {relay.name for relay in channel.relays}:
        raise UsageError(
            f"{destination} is a relay: it gets messages as they are, and no mapping is asked for them; "
            f"`mappings try --destination {destination}` shows what leaves"
        )


def channel_file(file: Path | None) -> AuthoredFile | None:
    """Return the file of a channel, with the places of its values; None where there is none."""
    return read(file) if file else None


def schema(
    name: Annotated[
        str, typer.Argument(help="mapping, resource, datatype, table, tests, out-segment ...; all, if none is given.")
    ] = "",
    out: SchemaFolder = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of a kind of file, or write all of them into the folder of your mappings.

    An editor with YAML support finds it by the first line of a file, such as
    `# yaml-language-server: $schema=../schema/resource.json`.

    Example: adt-engine mappings schema --out my-mappings/schema
    """
    show_schemas(schemas(), name, out, as_json=as_json)
