"""Segment ends: CR as the standard says, CRLF and LF as senders do, in text and in bytes.

CR always ends a segment. A lone LF ends one only where a segment begins behind it, or nothing does: a line feed that
somebody typed into an address stays in that address instead of cutting the PID in two.
"""

import re
from functools import lru_cache

_NEXT = r"[A-Z][A-Z0-9]{2}(?:%s|[\r\n]|\Z)"
_END = r"\r\n?|\n(?=" + _NEXT + r"|[\r\n\x1c]|\Z)"
LEADING = "\x0b\r\n\t \ufeff"
TRAILING = "\x0b\x1c\r\n\x00"
LEADING_BYTES = b"\x0b\r\n\t \xef\xbb\xbf"


@lru_cache(maxsize=64)
def _text_end(separator: str) -> re.Pattern[str]:
    return re.compile(_END % re.escape(separator))


@lru_cache(maxsize=64)
def _bytes_end(separator: bytes) -> re.Pattern[bytes]:
    return re.compile(_END.encode() % re.escape(separator))


def segment_texts(body: str, separator: str) -> list[str]:
    """Cut a message's text into the texts of its segments, without their ends; blank lines are left out."""
    if "\n" in body:
        body = body.replace("\r\n", "\r")
    if "\n" not in body:
        lines = body.split("\r")
    elif "\r" in body or not _all_begin_segments(lines := body.split("\n"), separator):
        lines = _text_end(separator).split(body)
    return [line for line in lines if line] if "" in lines else lines


def _all_begin_segments(lines: list[str], separator: str) -> bool:
    """Tell whether every line begins as a segment with fields does: the common case of LF ends, told cheaply."""
    for line in lines:
        name = line[:3]
        if line[3:4] != separator or not (name.isupper() and name.isalnum() and name.isascii() and name[0].isalpha()):
            return False
    return True


def first_segment(body: bytes, separator: bytes) -> bytes:
    """Return the bytes of the first segment without its end."""
    end = body.find(b"\r")
    first = body if end < 0 else body[:end]
    if b"\n" in first:
        return _bytes_end(separator).split(body[: end + 1] or body, maxsplit=1)[0]
    return first
