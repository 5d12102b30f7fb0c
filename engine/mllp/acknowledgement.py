"""Acknowledgements as they are read: MSA-1, MSA-2 and the errors of ERR, out of the bytes of a reply."""

import re
from dataclasses import dataclass
from typing import Final

POSITIVE: Final = frozenset({"AA", "CA"})
_LINE: Final = re.compile(rb"[\r\n]+")
_Segment = list[bytes]


@dataclass(frozen=True, slots=True)
class Ack:
    """One acknowledgement: MSA-1, MSA-2, and the table 0357 code and text of each error (empty where positive)."""

    code: str
    control_id: str
    errors: tuple[tuple[str, str], ...] = ()


def read_acks(reply: bytes) -> tuple[Ack, ...]:
    """Return the acknowledgements of a reply, one for each MSA; none where it is no acknowledgement.

    Errors are read from ERR as it is since 2.5 (ERR-3, ERR-8, ERR-7), as it was before (ERR-1.4), or from MSA-3.
    """
    separator, component = raw_separator(reply), b"^"
    found: list[tuple[_Segment, list[tuple[str, str]]]] = []
    for line in _LINE.split(reply):
        segment = line.split(separator)
        if segment[0] == b"MSH":
            component = part(segment, 1)[:1] or b"^"
        elif segment[0] == b"MSA":
            found.append((segment, []))
        elif segment[0] == b"ERR" and found:
            found[-1][1].extend(_error(segment, component))
    return tuple(
        Ack(printable(part(msa, 1)), printable(part(msa, 2)), tuple(errors) or _msa_text(msa)) for msa, errors in found
    )


def part(segment: _Segment | tuple[bytes, ...], field: int, index: int = -1, separator: bytes = b"^") -> bytes:
    """Return a field, or from `index` 0 on one of its components; empty where it is absent."""
    value = segment[field] if len(segment) > field else b""
    if index < 0:
        return value
    parts = value.split(separator)
    return parts[index] if len(parts) > index else b""


def printable(raw: bytes) -> str:
    """Return bytes as text for people; what is no UTF-8 is shown as its numbers."""
    return raw.decode("utf-8", errors="backslashreplace")


def _error(segment: _Segment, component: bytes) -> tuple[tuple[str, str], ...]:
    if part(segment, 3):
        text = part(segment, 8) or part(segment, 7) or part(segment, 3, 1, component)
        return ((printable(part(segment, 3, 0, component)), printable(text)),)
    code, _, text = part(segment, 1, 3, component).partition(b"&")
    return ((printable(code), printable(text.split(b"&")[0])),) if code else ()


def _msa_text(msa: _Segment) -> tuple[tuple[str, str], ...]:
    text = printable(part(msa, 3))
    return (("", text),) if text and printable(part(msa, 1)) not in POSITIVE else ()


def raw_separator(raw: bytes) -> bytes:
    """Return the field separator of the first header in the bytes, `|` where there is none."""
    found = re.search(rb"(?:\A|[\r\n])(?:MSH|BHS|FHS)(.)", raw)
    return found.group(1) if found else b"|"
