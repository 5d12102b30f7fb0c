"""Messages to try a mapping on: those of files, or those of a journal that filters choose; nothing is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console

from engine.config.channel import Channel
from engine.config.source import read, validate
from engine.errors import MessageError, UsageError
from engine.hl7.message import Message, parse
from engine.journal.read.reading import Reader
from engine.mapping.authoring.case import channel_of
from engine.ops.cli.mapping.authored import messages_in
from engine.ops.operations.filters import SearchFilter

PAGE: Final = 200

Files = Annotated[list[Path] | None, typer.Argument(help="Files of HL7 messages.", metavar="[FILE...]")]
Journal = Annotated[Path | None, typer.Option("--data", help="Take the messages of this data folder's journal.")]
On = Annotated[Path | None, typer.Option("--channel", help="Map as on the channel of this file; only its entries.")]
Event = Annotated[str, typer.Option(help="With --data: only of this trigger event.")]
State = Annotated[str, typer.Option(help="With --data: only in this state.")]
Since = Annotated[str, typer.Option(help="With --data: only received since, such as 2025-07-01T09:30, or 12h.")]
Patient = Annotated[str, typer.Option(help="With --data: only naming this identifier.")]
Limit = Annotated[int, typer.Option(min=1, help="With --data: at most this many, the newest.")]
Values = Annotated[bool, typer.Option("--values", help="With --data: show values (patient data).")]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages are meant: files, or entries of a journal."""

    files: tuple[Path, ...]
    data: Path | None
    filters: dict[str, Any]
    limit: int


class Sample(NamedTuple):
    """One message and what it is called: `a.hl7 #2`, or `entry 37`; None where it cannot be read."""

    name: str
    message: Message | None


def chosen(files: list[Path] | None, data: Path | None, limit: int, **filters: str) -> Choice:
    """Return what a command was given; UsageError unless it is files or a journal."""
    if bool(files) == (data is not None):
        raise UsageError("give files of messages, or --data with the data folder of an engine")
    return Choice(tuple(files or ()), data, filters, limit)


def channel_in(file: Path | None) -> Channel:
    """Return the channel of a file, or one that allows everything."""
    return validate(read(file), Channel) if file else channel_of({})


def handed(choice: Choice, channel: Channel, take: Callable[[str, Message], None]) -> int:
    """Hand each message and what it is called to `take`, and return how many cannot be read; a terminal shows it."""
    unreadable = 0
    with Console(stderr=True).status("reading messages"):
        for sample in samples(choice, channel):
            if sample.message is None:
                unreadable += 1
            else:
                take(sample.name, sample.message)
    return unreadable


def samples(choice: Choice, channel: Channel) -> Iterator[Sample]:
    """Yield the messages, those of a journal from the newest on."""
    if choice.data is not None:
        yield from _journaled(choice.data, choice, channel)
        return
    for file in choice.files:
        raws = list(messages_in(file))
        for number, raw in enumerate(raws, 1):
            yield Sample(f"{file} #{number}" if len(raws) > 1 else str(file), _parsed(raw, channel))


def _journaled(data: Path, choice: Choice, channel: Channel) -> Iterator[Sample]:
    filters = SearchFilter.parse(choice.filters).filters()
    left, before = choice.limit, None
    with Reader(data) as reader:
        while left > 0 and (rows := reader.list(filters, min(left, PAGE), before)):
            left, before = left - len(rows), rows[-1].seq
            for row in rows:
                yield Sample(f"entry {row.seq}", _parsed(reader.show(row.seq).raw, channel))


def _parsed(raw: bytes, channel: Channel) -> Message | None:
    try:
        return parse(raw, charset=channel.charset, undecodable="replace")
    except MessageError:
        return None
