"""What the mapping commands are given: folders of mappings, files of messages, and the journal's messages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.config.shipped import shipped
from engine.errors import UsageError

MESSAGES: Final = re.compile(rb"(?:\A|[\r\n\x0b\x1c]+)(?=MSH[^A-Za-z0-9\s])")


def folders_of(mappings: Path | None) -> list[Path]:
    """Return the folders that mapping files are looked for in, the shipped one last; UsageError for what is none."""
    if mappings is not None and not mappings.is_dir():
        raise UsageError(f"{mappings} is not a folder; --mappings takes a folder of mapping files")
    return [folder for folder in (mappings, shipped("mappings")) if folder is not None]


def messages_in(file: Path) -> Iterator[bytes]:
    """Yield the messages of a file, whatever ends its lines; all of it where there is none. UsageError: unreadable."""
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror})") from error
    parts = (part.strip(b"\x0b\x1c\r\n") for part in MESSAGES.split(raw))
    yield from [part for part in parts if part.startswith(b"MSH")] or [raw]
