"""Messages to try a mapping on: of files, of folders, or of a journal that filters choose; nothing is written."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Console

from engine.config.channel import Channel
from engine.errors import MessageError, UsageError
from engine.hl7.charset import wide_codec
from engine.hl7.lines import LEADING_BYTES
from engine.hl7.message import Message, parse
from engine.journal.read.reading import Reader
from engine.ops.cli.mapping.mappings import MESSAGES, bytes_of, messages_of
from engine.ops.operations.filters import SearchFilter

# Names of files that should hold a message; one without a message is reported, below a folder too.
HL7: Final = ".hl7"


class NamedMessage(NamedTuple):
    """One message and its name: `a.hl7`, or `a.hl7 #2` where the file holds several."""

    name: str
    raw: bytes


def messages_below(paths: Iterable[Path]) -> Iterator[NamedMessage]:
    """Yield the messages of files, and of every file below a folder that holds some, in order of name.

    A file that is named and holds none is one message, which cannot be read. UsageError for a path that cannot be read,
    and for a folder without a message.
    """
    for path in paths:
        if path.is_dir():
            yield from _below(path)
        else:
            yield from _named(path, bytes_of(path))


def _below(folder: Path) -> Iterator[NamedMessage]:
    found = False
    for file in sorted(folder.rglob("*")):
        if any(part.startswith(".") for part in file.relative_to(folder).parts) or not file.is_file():
            continue
        raw = bytes_of(file)
        if _holds_messages(raw) or (file.suffix.lower() == HL7 and raw.strip()):
            found = True
            yield from _named(file, raw)
    if not found:
        raise UsageError(f"no file below {folder} holds an HL7 message (a line that begins with MSH); name another one")


def _named(file: Path, raw: bytes) -> Iterator[NamedMessage]:
    raws = list(messages_of(raw))
    for number, one in enumerate(raws, 1):
        yield NamedMessage(f"{file} #{number}" if len(raws) > 1 else str(file), one)


def _holds_messages(raw: bytes) -> bool:
    return bool(MESSAGES.search(raw) or wide_codec(raw) or raw.lstrip(LEADING_BYTES).startswith(b"MSH"))


PAGE: Final = 200

Files = Annotated[
    list[Path] | None, typer.Argument(help="Files of HL7 messages, or folders of them.", metavar="[FILE...]")
]
Journal = Annotated[
    Path | None, typer.Option("--data", help="Take the messages that filters choose of this data folder's journal.")
]
On = Annotated[Path | None, typer.Option("--channel", help="Map as on the channel of this file; only its entries.")]
Limit = Annotated[int, typer.Option(min=1, help="With --data: at most this many, the newest.")]
Values = Annotated[bool, typer.Option("--values", help="With --data or --html: show values (patient data).")]


class MessageSelection(NamedTuple):
    """Which messages are meant: files and folders, or the newest entries of a journal that a filter chooses."""

    files: list[Path] | None
    data: Path | None
    filters: SearchFilter
    limit: int


class TrafficMessage(NamedTuple):
    """One message and what it is called: `a.hl7 #2`, or `entry 37`; None where it cannot be read."""

    name: str
    message: Message | None


def each_message(choice: MessageSelection, channel: Channel, take: Callable[[str, Message], object]) -> int:
    """Give each message and what it is called to `take`, and return how many cannot be read; a terminal shows it.

    UsageError unless the choice is of files or of a journal.
    """
    if bool(choice.files) == (choice.data is not None):
        raise UsageError("give files or folders of messages, or --data with the data folder of an engine")
    unreadable = 0
    with Console(stderr=True).status("reading messages"):
        for sample in _samples(choice, channel):
            if sample.message is None:
                unreadable += 1
            else:
                take(sample.name, sample.message)
    return unreadable


def _samples(choice: MessageSelection, channel: Channel) -> Iterator[TrafficMessage]:
    """Yield the messages, those of a journal from the newest on."""
    if choice.data is not None:
        yield from _journaled(choice.data, choice, channel)
        return
    for name, raw in messages_below(choice.files or ()):
        yield TrafficMessage(name, _parsed(raw, channel))


def _journaled(data: Path, choice: MessageSelection, channel: Channel) -> Iterator[TrafficMessage]:
    filters, left, before = choice.filters.filters(), choice.limit, None
    with Reader(data) as reader:
        while left > 0 and (rows := reader.list(filters, min(left, PAGE), before)):
            left, before = left - len(rows), rows[-1].seq
            for row in rows:
                yield TrafficMessage(f"entry {row.seq}", _parsed(reader.show(row.seq).raw, channel, row.event))


def _parsed(raw: bytes, channel: Channel, event: str = "") -> Message | None:
    try:
        return parse(raw, charset=channel.charset, undecodable="replace", event_from_evn=channel.reads_evn(event))
    except MessageError:
        return None
