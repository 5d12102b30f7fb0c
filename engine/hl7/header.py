"""The header of a message, MSH, as bytes: what can be answered even when the message cannot be decoded."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Final

from engine.errors import UnreadableMessageError
from engine.hl7.charset import UTF8_MARK, coding_of, wide_codec
from engine.hl7.delimiters import STANDARD, Delimiters, delimiters_of, is_delimiter
from engine.hl7.iso2022 import ESCAPE, without_double_runs
from engine.hl7.lines import LEADING_BYTES, first_segment

CHARACTER_SET: Final = 18
# Sets whose second bytes may be those of delimiters.
_DOUBLE_BYTE_CODECS: Final = frozenset({"big5", "gb18030"})
_UNSAID: Final = "unsaid"
_DOUBLE_BYTES: Final = re.compile(rb"[\x81-\xfe](?:[\x40-\x7e\x80-\xfe]|[0-9][\x81-\xfe][0-9])")
# Versions in which MSH-9 may be the message type alone: the event is then said in EVN-1, which was required.
# A later message is read so only where its channel says that such a sender is meant.
EVENT_IN_EVN: Final = frozenset({"2.1", "2.2"})


@dataclass(frozen=True, slots=True, repr=False)
class Header:
    """MSH as it came in; `fields[n]` is MSH-n (`fields[0]` is `MSH`).

    `delimiters` is MSH-1 and MSH-2 as sent. `wide` names the codec of a UTF-16 or UTF-32 message: its bytes stand here
    in UTF-8, so that an answer has to be encoded back; '' for all others. `event` is EVN-1 of an ADT message without
    MSH-9.2, and `event_from_evn` whether it counts in a message of 2.3 or later.
    """

    fields: tuple[bytes, ...]
    delimiters: bytes
    declared: Delimiters
    wide: str = ""
    event: str = ""
    event_from_evn: bool = False
    _parts: dict[int, str] = dataclasses.field(default_factory=dict, init=False, compare=False)

    def field(self, number: int) -> bytes:
        """Return MSH-`number` as its bytes, b'' where it is absent."""
        return self.fields[number] if 0 <= number < len(self.fields) else b""

    def component(self, number: int, component: int) -> str:
        """Return one component of a field's first repetition as text, best effort; '' where it is absent or null."""
        key = number << 8 | component
        known = self._parts.get(key)
        if known is None:
            repeat, mark, _, _ = self.declared.cuts
            parts = self.field(number).decode("ascii", "backslashreplace").split(repeat, 1)[0].split(mark)
            part = parts[component - 1].strip() if component <= len(parts) else ""
            known = self._parts[key] = "" if part == '""' else part
        return known

    @property
    def message_type(self) -> str:
        """MSH-9.1, `ADT`."""
        return self.component(9, 1)

    @property
    def trigger(self) -> str:
        """MSH-9.2, `A01`; EVN-1 where that is empty in a message of 2.1 or 2.2, or the channel says so."""
        return self.component(9, 2) or (self.event if self.event_from_evn or self.version in EVENT_IN_EVN else "")

    @property
    def control_id(self) -> bytes:
        """MSH-10."""
        return self.field(10)

    @property
    def processing_id(self) -> str:
        """MSH-11.1, `P`."""
        return self.component(11, 1)

    @property
    def version(self) -> str:
        """MSH-12.1, '' where it is empty: the channel's version then holds."""
        return self.component(12, 1)

    @property
    def accept_condition(self) -> str:
        """MSH-15, `AL`, `NE`, `ER`, `SU` or ''."""
        return self.component(15, 1)

    @property
    def application_condition(self) -> str:
        """MSH-16, `AL`, `NE`, `ER`, `SU` or ''."""
        return self.component(16, 1)

    @property
    def charset_field(self) -> bytes:
        """MSH-18 with all its repetitions."""
        return self.field(CHARACTER_SET)

    def __repr__(self) -> str:
        return f"<Header of {len(self.fields)} fields>"


def read_header(raw: bytes, *, event_from_evn: bool = False, charset: str = "") -> Header | None:
    """Read MSH from the bytes of a message; None where no MSH with a usable field separator begins it.

    A byte order mark, blanks and line ends before it are passed over. MSH-2 that cannot be used leaves the usual
    delimiters in `declared`; to parse such a message is refused. `event_from_evn`: in any version EVN-1 says the event
    where MSH-9.2 is empty, not only before 2.3. `charset`: the set where MSH-18 is empty.
    """
    wide = wide_codec(raw)
    if wide:
        raw = raw.decode(wide, "replace").encode()
    body = raw.lstrip(LEADING_BYTES)
    separator = body[3:4]
    if body[:3] != b"MSH" or not is_delimiter(separator.decode("latin-1")):
        return None
    known = wide or raw.startswith(UTF8_MARK)
    fields = _split(first_segment(body, separator), separator, "" if known else charset)
    encoding = fields[1] if len(fields) > 1 else b""
    declared = _declared(separator, encoding)
    header = Header((fields[0], separator, *fields[1:]), separator + encoding, declared, wide)
    if header.trigger or header.message_type != "ADT":
        return header
    return dataclasses.replace(header, event=_event(body, separator, declared), event_from_evn=event_from_evn)


def _event(body: bytes, separator: bytes, declared: Delimiters) -> str:
    """Return EVN-1 as text; '' where there is none."""
    found = re.search(rb"[\r\n]EVN%s([^\r\n]*)" % re.escape(separator), body)
    text = found[1].split(separator, 1)[0].decode("ascii", "backslashreplace") if found else ""
    part = text.split(declared.repetition, 1)[0].split(declared.component, 1)[0].strip()
    return "" if part == '""' else part


def character_set(raw: bytes, charset: str = "") -> tuple[bytes, bytes]:
    """Return MSH-18 and the repetition separator, as little as decoding needs; both b'' where there is none.

    `charset`: the set where it is empty.
    """
    body = raw if raw.startswith(b"MSH") else raw.lstrip(LEADING_BYTES)
    separator = body[3:4]
    if not separator:
        return b"", b""
    fields = _split(first_segment(body, separator), separator, charset, CHARACTER_SET)
    if len(fields) < CHARACTER_SET or not fields[CHARACTER_SET - 1]:
        return b"", b""
    return fields[CHARACTER_SET - 1], _declared(separator, fields[1]).repetition.encode("latin-1")


def _split(segment: bytes, separator: bytes, charset: str, limit: int = -1) -> list[bytes]:
    """Split MSH by its separator, not inside characters of two bytes."""
    if ESCAPE not in segment and segment.isascii():
        return segment.split(separator, limit)
    fields: list[bytes] = []
    begin = 0
    for masked in _without_double_bytes(segment, separator, charset).split(separator, limit):
        fields.append(segment[begin : begin + len(masked)])
        begin += len(masked) + 1
    return fields


def _without_double_bytes(segment: bytes, separator: bytes, charset: str) -> bytes:
    """Return bytes of equal length with characters of two bytes blanked: of ISO 2022, of the set declared or usual."""
    if ESCAPE in segment:
        return without_double_runs(segment)
    masked = _DOUBLE_BYTES.sub(lambda found: b"\x80" * len(found[0]), segment)
    usual = coding_of(b"", b"", charset or "ascii")
    codec = _codec(masked, separator) or _codec(segment, separator) or (usual.name if usual else "")
    return masked if codec in _DOUBLE_BYTE_CODECS else segment


def _codec(segment: bytes, separator: bytes) -> str:
    """Return the codec that MSH-18 of a segment names, '' where it names none that is known."""
    fields = segment.split(separator, CHARACTER_SET)
    declared = fields[CHARACTER_SET - 1] if len(fields) >= CHARACTER_SET else b""
    coding = coding_of(declared, b"", _UNSAID) if declared else None
    return coding.name if coding is not None and coding.name != _UNSAID else ""


def _declared(separator: bytes, encoding: bytes) -> Delimiters:
    try:
        return delimiters_of(separator.decode("latin-1"), encoding.decode("latin-1"))
    except UnreadableMessageError:
        return STANDARD._replace(field=separator.decode("latin-1"))
