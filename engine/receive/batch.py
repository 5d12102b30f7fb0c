"""Batches: the FHS/BHS/BTS/FTS envelope (HL7 chapter 2, batch protocol) taken off, and put around the replies.

Works on bytes, because each message of a batch has its own character set and is journaled as it came.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_LINE: Final = re.compile(rb"[^\r\n]*[\r\n]*")
_RETURNED: Final = re.compile(rb"[^\r]*(?:\r[\r\n]*|\Z)")
_LINE_END: Final = re.compile(rb"\r|\n")
_BEHIND_FEED: Final = re.compile(rb"(?<=\n)(?:MSH|FHS|BHS|BTS|FTS)[^A-Za-z0-9\r\n]")
_HEADERS: Final = frozenset({b"MSH", b"FHS", b"BHS"})
_TRAILERS: Final = frozenset({b"BTS", b"FTS"})
_LEADING: Final = b"\x00\xef\xbb\xbf\r\n \t"
_TIME: Final = "%Y%m%d%H%M%S%z"


@dataclass(frozen=True, slots=True)
class BatchSection:
    """One batch within the envelope: its BHS segment (empty without one), and how many messages it holds."""

    header: bytes
    messages: int

    @property
    def control_id(self) -> bytes:
        """BHS-11, empty where it is not valued."""
        return _field(self.header, 11)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one block held: whole messages in order, and the envelope they came in.

    `enveloped` False means several messages without an envelope: each gets an acknowledgement block of its own.
    `warnings` are `batch-count-mismatch`, `file-count-mismatch` and `text-outside-messages`; none is fatal.
    """

    messages: tuple[bytes, ...]
    enveloped: bool
    file_header: bytes = b""
    sections: tuple[BatchSection, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def control_id(self) -> bytes:
        """BHS-11 of the first batch, or FHS-11 where there is no BHS."""
        header = next((section.header for section in self.sections if section.header), self.file_header)
        return _field(header, 11)


def unpack(raw: bytes) -> Batch | None:
    """Return the parts of a block that is no plain message; None where it is one, or nothing that is known."""
    body = raw.lstrip(_LEADING)
    begin = body[:3]
    if begin == b"MSH":
        # The usual case first: every message passes here.
        if body.find(b"MSH", 3) < 0 and b"BHS" not in body and b"FHS" not in body:
            return None
    elif begin not in {b"FHS", b"BHS"}:
        return None
    lines = list(_lines(body, enveloped=begin != b"MSH"))
    further = {line[:3] for line in lines[1:] if line[:3] in _HEADERS and not line[3:4].isalnum()}
    if begin == b"MSH" and not further:
        return None
    return _Unpacking(lines, body[3:4]).batch(enveloped=begin != b"MSH" or further != {b"MSH"})


def _lines(body: bytes, *, enveloped: bool) -> Iterator[bytes]:
    """Yield the lines of a block with their ends; where segments end in CR, text with a lone LF in it is one line.

    There LF ends a line only before a header with the delimiters, a type and a control ID, or within an envelope.
    """
    end = _LINE_END.search(body)
    if end is None or end[0] == b"\n":
        yield from _LINE.findall(body)
        return
    for line in _RETURNED.findall(body):
        begun = 0
        for found in _BEHIND_FEED.finditer(line):
            if enveloped or _is_header(line[found.start() :], body[3:8]):
                yield line[begun : found.start()]
                begun = found.start()
        yield line[begun:]


def _is_header(text: bytes, declared: bytes) -> bool:
    fields = text.partition(b"\n")[0].split(declared[:1], 10)
    return text[:3] == b"MSH" and text[3:8] == declared and len(fields) > 9 and bool(fields[8] and fields[9])


class _Unpacking:
    """Walks the lines of a block once; `separator` is that of its first header."""

    def __init__(self, lines: Sequence[bytes], separator: bytes) -> None:
        self._separator = separator
        self.file_header = b""
        self.messages: list[bytearray] = []
        self.sections: list[BatchSection] = []
        self.warnings: list[str] = []
        self._header = b""
        self._first = 0
        self._in_batch = False
        self._open = False
        for segment in lines:
            self._take(segment)
        self._end_section()

    def batch(self, *, enveloped: bool) -> Batch:
        return Batch(
            tuple(bytes(message) for message in self.messages),
            enveloped,
            self.file_header,
            tuple(self.sections),
            tuple(dict.fromkeys(self.warnings)),
        )

    def _take(self, segment: bytes) -> None:
        name, follows = segment[:3], segment[3:4]
        if (name in _HEADERS and follows.isalnum()) or (
            name in _TRAILERS and follows not in {b"", b"\r", b"\n", self._separator}
        ):
            self._continue(segment)
        elif name == b"MSH":
            self.messages.append(bytearray(segment))
            self._open = True
        elif name == b"FHS":
            self.file_header = segment.rstrip(b"\r\n")
            self._open = False
        elif name == b"BHS":
            self._end_section()
            self._header, self._in_batch, self._open = segment.rstrip(b"\r\n"), True, False
        elif name == b"BTS":
            self._compare(segment, len(self.messages) - self._first, "batch-count-mismatch")
            self._end_section()
        elif name == b"FTS":
            self._end_section()
            self._compare(segment, len(self.sections), "file-count-mismatch")
            self._open = False
        else:
            self._continue(segment)

    def _continue(self, segment: bytes) -> None:
        """Keep a segment with its message; one that has none becomes a fragment, so that nothing is lost unseen."""
        if not segment.strip():
            if self._open:
                self.messages[-1] += segment
            return
        if not self._open:
            self.warnings.append("text-outside-messages")
            self.messages.append(bytearray())
            self._open = True
        self.messages[-1] += segment

    def _end_section(self) -> None:
        count = len(self.messages) - self._first
        if self._in_batch or count:
            self.sections.append(BatchSection(self._header, count))
        self._header, self._in_batch, self._open = b"", False, False
        self._first = len(self.messages)

    def _compare(self, trailer: bytes, count: int, warning: str) -> None:
        stated = _field(trailer.rstrip(b"\r\n"), 1, separator=(self._header or self.file_header)[3:4] or b"|").strip()
        if stated and stated != str(count).encode():
            self.warnings.append(warning)


def pack_replies(batch: Batch, acks: Sequence[bytes], control_id: str, at: datetime) -> bytes:
    """Return the reply to a batch: its acknowledgements in the same envelope, which names the batch's own control ID.

    `acks` stand in the order of `batch.messages`; an empty one (nothing is to be said) is left out of text and count.
    """
    parts: list[bytes] = []
    position = batches = 0
    for section in batch.sections:
        answers = [ack for ack in acks[position : position + section.messages] if ack]
        position += section.messages
        header = section.header or (b"" if batch.file_header else b"BHS|^~\\&")
        batches += 1
        if not header:
            parts += answers
            continue
        parts += [_reply_header(header, control_id, at), *answers, _trailer(b"BTS", header, len(answers))]
    if batch.file_header:
        parts.insert(0, _reply_header(batch.file_header, control_id, at))
        parts.append(_trailer(b"FTS", batch.file_header, batches))
    return b"".join(parts)


def _reply_header(header: bytes, control_id: str, at: datetime) -> bytes:
    """Return FHS or BHS with sender and receiver swapped; field 12 names the control ID of the one answered."""
    fields = [
        header[:3],
        _field(header, 2),
        _field(header, 5),
        _field(header, 6),
        _field(header, 3),
        _field(header, 4),
        at.strftime(_TIME).encode(),
        *[b""] * 3,
        control_id.encode(),
        _field(header, 11),
    ]
    return (header[3:4] or b"|").join(fields) + b"\r"


def _trailer(name: bytes, header: bytes, count: int) -> bytes:
    return name + (header[3:4] or b"|") + str(count).encode() + b"\r"


def _field(segment: bytes, number: int, separator: bytes = b"") -> bytes:
    """Return a field of FHS, BHS (numbered like MSH: field 1 is the separator), or of a trailer with its separator."""
    fields = segment.split(separator or segment[3:4] or b"|")
    position = number if separator else number - 1
    return fields[position] if position < len(fields) else b""
