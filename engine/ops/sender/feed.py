"""Files and folders as messages to send, byte for byte.

python-hl7, which is the line they go over (`line`), is not the one that splits them: its `split_file` and `parse_batch`
want decoded text, trim each line, end every segment with CR and leave the envelope out or write it anew.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

from engine.errors import UsageError
from engine.mllp.acknowledgement import raw_separator

_ENVELOPES: Final = (b"FHS", b"BHS")
_MESSAGE_START: Final = re.compile(rb"(?:(?<=[\r\n])|\A)(?=MSH[^A-Za-z0-9\r\n])")
_LINE: Final = re.compile(rb"[\r\n]+")


def read_messages(paths: Sequence[Path]) -> tuple[bytes, ...]:
    """Return the messages of files, and of the `*.hl7` files of folders in order of name.

    A batch file (FHS or BHS) is one block, unchanged. UsageError names a path that cannot be read or holds nothing.
    """
    return tuple(message for _, message in read_placed(paths))


def read_placed(paths: Sequence[Path]) -> tuple[tuple[Path, bytes], ...]:
    """Return each message as `read_messages` does, with the file that holds it."""
    placed = tuple((file, message) for path in paths for file in files_of(path) for message in messages_of(file))
    if not placed:
        raise UsageError("nothing to send: the files are empty")
    return placed


def messages_of(file: Path) -> tuple[bytes, ...]:
    """Return the messages of one file; UsageError where it cannot be read."""
    return split_messages(_bytes(file))


def split_messages(raw: bytes) -> tuple[bytes, ...]:
    """Return the blocks of one file; MLLP bytes around them are dropped, everything else stays as it is."""
    return tuple(
        part for block in re.split(rb"\x1c\r?\n?", raw) for part in _split(block.lstrip(b"\x0b")) if part.strip()
    )


def fields(raw: bytes, name: bytes) -> tuple[tuple[bytes, ...], ...]:
    """Return the fields of every segment of a name, numbered as the standard does (MSH-1 is the separator)."""
    separator = raw_separator(raw)
    found = (line.split(separator) for line in _LINE.split(raw) if line.startswith(name))
    return tuple((parts[0], separator, *parts[1:]) if name == b"MSH" else tuple(parts) for parts in found)


def deal(messages: Sequence[bytes], connections: int) -> tuple[tuple[int, ...], ...]:
    """Deal the messages' positions to connections so that each patient's messages stay on one, in order.

    Patients whom one message names together (PID-3 and MRG-1, or the messages of one batch) stay together throughout.
    A message that names nobody goes by its bytes.
    """
    if connections == 1:
        return (tuple(range(len(messages))),)
    keys = [_patients(message) or (message,) for message in messages]
    leader = _leaders(keys)
    hands: list[list[int]] = [[] for _ in range(connections)]
    for position, named in enumerate(keys):
        hands[crc32(leader[named[0]]) % connections].append(position)
    return tuple(tuple(hand) for hand in hands)


def files_of(path: Path) -> Iterable[Path]:
    """Return a file itself, and of a folder its `*.hl7` files in order of name; UsageError where it holds none."""
    if not path.is_dir():
        return (path,)
    files = sorted(path.glob("*.hl7"))
    if not files:
        raise UsageError(f"{path} has no *.hl7 files")
    return files


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from error


def _split(block: bytes) -> Iterable[bytes]:
    return (block,) if block.lstrip().startswith(_ENVELOPES) else _MESSAGE_START.split(block)


def _patients(message: bytes) -> tuple[bytes, ...]:
    encoding = next((header[2] for header in fields(message, b"MSH") if len(header) > 2), b"")
    component, repetition = encoding[:1] or b"^", encoding[1:2] or b"~"
    lists = [segment[3] for segment in fields(message, b"PID") if len(segment) > 3]
    lists += [segment[1] for segment in fields(message, b"MRG") if len(segment) > 1]
    numbers = (number.split(component)[0] for group in lists for number in group.split(repetition))
    return tuple(number for number in numbers if number)


def _leaders(keys: Sequence[tuple[bytes, ...]]) -> dict[bytes, bytes]:
    parent = {key: key for named in keys for key in named}

    def find(key: bytes) -> bytes:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for first, *others in keys:
        for other in others:
            parent[find(other)] = find(first)
    return {key: find(key) for key in parent}
