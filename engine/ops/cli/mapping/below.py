"""Files that hold HL7 messages: those that are named, and of a folder all below it that do."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import UsageError
from engine.hl7.charset import wide_codec
from engine.hl7.lines import LEADING_BYTES
from engine.ops.cli.mapping.mappings import MESSAGES, bytes_of, messages_of

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
