"""The acknowledgement message: MSH, MSA and ERR in the sender's version, delimiters and character set.

    MSH   sender and receiver swapped, MSH-11, MSH-12 and MSH-18 as they came, `ACK^A01^ACK` (since 2.3.1)
    MSA   code, the message's control ID, up to 2.6 a text
    ERR   since 2.5 one segment for each finding (ERR-2 to ERR-4, ERR-7, ERR-8), before that ERR-1 in its old form

What is echoed is copied as bytes; our own text never holds a value of the message.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final

from engine.acknowledge.code import AckCode
from engine.errors import UnreadableMessageError
from engine.hl7.delimiters import Delimiters, delimiters_of
from engine.hl7.finding import ErrorCode, Finding, FindingSeverity
from engine.hl7.header import Header

DEFAULT_VERSION: Final = "2.5.1"
MAX_ERRORS: Final = 100

# HL7 table 0357, message error condition codes.
TABLE_0357: Final = {
    ErrorCode.SEGMENT_SEQUENCE: "Segment sequence error",
    ErrorCode.REQUIRED_MISSING: "Required field missing",
    ErrorCode.DATA_TYPE: "Data type error",
    ErrorCode.TABLE_VALUE: "Table value not found",
    ErrorCode.UNSUPPORTED_MESSAGE: "Unsupported message type",
    ErrorCode.UNSUPPORTED_EVENT: "Unsupported event code",
    ErrorCode.UNSUPPORTED_PROCESSING: "Unsupported processing id",
    ErrorCode.UNSUPPORTED_VERSION: "Unsupported version id",
    ErrorCode.UNKNOWN_KEY: "Unknown key identifier",
    ErrorCode.DUPLICATE_KEY: "Duplicate key identifier",
    ErrorCode.APPLICATION: "Application internal error",
}

_LOCATION: Final = re.compile(
    r"(?P<segment>[A-Z][A-Z0-9]{2})(?:\((?P<sequence>\d+)\))?"
    r"(?:-(?P<field>\d+)(?:\((?P<repetition>\d+)\))?(?:\.(?P<component>\d+)(?:\.(?P<subcomponent>\d+))?)?)?"
)
_VERSION: Final = re.compile(r"2\.(\d+)(?:\.(\d+))?")


def build(
    header: Header,
    code: AckCode,
    findings: Sequence[Finding],
    control_id: str,
    at: datetime,
    charset: str,
    *,
    version: str = DEFAULT_VERSION,
    text: str = "",
) -> bytes:
    """Return the acknowledgement of the message with this header.

    `control_id` is the acknowledgement's own MSH-10, `charset` the codec of the message, `version` what an empty
    MSH-12 counts as, `text` what MSA-3 says where nothing was found. At most 100 findings are written.
    """
    separator, encoding, delimiters = _delimiters(header)
    spoken = _spoken(header, findings, version)
    writer = _ack_writer(delimiters, "utf-8" if header.wide else charset)
    field = header.field
    msh = [
        b"MSH",
        encoding,
        field(5),
        field(6),
        field(3),
        field(4),
        at.strftime("%Y%m%d%H%M%S%z").encode(),
        b"",
        _message_type(header, writer, spoken),
        control_id.encode(),
        field(11),
        field(12) if spoken == header.version else writer.text(spoken),
    ]
    if header.charset_field:
        msh += [b"", b"", b"", b"", b"", header.charset_field]
    segments = [separator.join(msh), _msa(header, code, findings, writer, spoken, text)]
    if findings:
        segments += _errors(findings[:MAX_ERRORS], writer, spoken)
    said = b"\r".join(segments) + b"\r"
    return said.decode("utf-8", "replace").encode(header.wide, "replace") if header.wide else said


class _AckWriter:
    """Writes our own text with the delimiters and in the character set of the message."""

    __slots__ = ("_charset", "_delimiters", "component", "field", "repetition", "subcomponent")

    def __init__(self, delimiters: Delimiters, charset: str) -> None:
        self._charset = charset
        self._delimiters = delimiters
        # Delimiters are single bytes, read as latin-1 whatever the character set is.
        self.field, self.component, self.repetition, _escape, self.subcomponent, _truncation = (
            mark.encode("latin-1") for mark in delimiters
        )

    def text(self, text: str) -> bytes:
        return _encode(_escape(text, self._delimiters), self._charset)


_ack_writer = lru_cache(maxsize=256)(_AckWriter)


def _join(separator: bytes, parts: Sequence[bytes]) -> bytes:
    """Join parts; where that delimiter is not declared, the first part is written alone."""
    return separator.join(parts) if separator else parts[0]


def _encode(text: str, charset: str) -> bytes:
    try:
        return text.encode(charset, "replace")
    except LookupError:
        return text.encode("ascii", "replace")


@lru_cache(maxsize=1024)
def _escape(text: str, delimiters: Delimiters) -> str:
    names = zip(
        "FSRET",
        (delimiters.field, delimiters.component, delimiters.repetition, delimiters.escape, delimiters.subcomponent),
        strict=True,
    )
    escape = delimiters.escape
    special = {mark: f"{escape}{name}{escape}" if escape else " " for name, mark in names if mark}
    return "".join(special.get(character, character) for character in text)


def _delimiters(header: Header) -> tuple[bytes, bytes, Delimiters]:
    """Return MSH-1 and MSH-2 to write and what they mean; the usual ones where those of the message cannot be used."""
    separator, encoding = header.field(1), header.field(2)
    try:
        return separator, encoding or b"^~\\&", delimiters_of(separator.decode("latin-1"), encoding.decode("latin-1"))
    except UnreadableMessageError:
        return separator, b"^~\\&", header.declared


def _spoken(header: Header, findings: Sequence[Finding], version: str) -> str:
    """Return the version to answer in: the message's, unless it names none or that is the fault."""
    if any(finding.code is ErrorCode.UNSUPPORTED_VERSION for finding in findings):
        return DEFAULT_VERSION
    return header.version or version


@lru_cache(maxsize=64)
def _release(version: str) -> tuple[int, int]:
    """Return the numbers after `2.` of a version, (5, 1) for what is none."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2] or 0)) if match else (5, 1)


def _message_type(header: Header, writer: _AckWriter, version: str) -> bytes:
    parts = header.field(9).split(writer.component) if writer.component else [header.field(9)]
    if len(parts) < 2 or not parts[1]:
        return b"ACK"
    event = parts[1]
    return _join(writer.component, [b"ACK", event, b"ACK"] if _release(version) >= (3, 1) else [b"ACK", event])


def _msa(
    header: Header, code: AckCode, findings: Sequence[Finding], writer: _AckWriter, version: str, text: str
) -> bytes:
    fields = [b"MSA", code.value.encode(), header.control_id]
    said = next((finding.text for finding in findings if finding.severity is FindingSeverity.ERROR), text)
    if said and _release(version) < (7, 0):
        fields.append(writer.text(said))
    return _join(writer.field, fields)


def _errors(findings: Sequence[Finding], writer: _AckWriter, version: str) -> list[bytes]:
    if _release(version) >= (5, 0):
        return [_error(finding, writer) for finding in findings]
    old = [
        _old_location(finding, location, writer)
        for finding in findings
        if finding.severity is FindingSeverity.ERROR
        for location in finding.locations or ("",)
    ]
    return [_join(writer.field, [b"ERR", _join(writer.repetition, old)])] if old else []


def _error(finding: Finding, writer: _AckWriter) -> bytes:
    locations = [_location(location, writer) for location in finding.locations]
    return _join(
        writer.field,
        [
            b"ERR",
            b"",
            _join(writer.repetition, locations) if locations else b"",
            _join(writer.component, [b"%d" % finding.code, writer.text(TABLE_0357[finding.code]), b"HL70357"]),
            finding.severity.value.encode(),
            b"",
            b"",
            writer.text(finding.reason),
            writer.text(finding.text),
        ],
    )


def _location(path: str, writer: _AckWriter) -> bytes:
    """Write a path as ERL: segment, its sequence, field, repetition, component, subcomponent."""
    match = _LOCATION.fullmatch(path)
    if match is None:
        return b""
    parts = [match["segment"], match["sequence"] or "1"]
    if match["field"]:
        parts.append(match["field"])
        if match["repetition"] or match["component"]:
            parts.append(match["repetition"] or "1")
        parts += [match[name] for name in ("component", "subcomponent") if match[name]]
    return _join(writer.component, [part.encode() for part in parts])


def _old_location(finding: Finding, path: str, writer: _AckWriter) -> bytes:
    """Write ERR-1 as before 2.5 (ELD): segment, its sequence, field, and the code as a coded element."""
    match = _LOCATION.fullmatch(path)
    where = [match["segment"], match["sequence"] or "1", match["field"] or ""] if match else ["", "", ""]
    code = _join(writer.subcomponent, [b"%d" % finding.code, writer.text(TABLE_0357[finding.code]), b"HL70357"])
    return _join(writer.component, [*(part.encode() for part in where), code])
