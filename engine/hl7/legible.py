"""Characters that no FHIR text may hold, taken out of what is mapped; the bytes that came in stay as they are.

FHIR `string`: no control characters but tab and line ends; and nothing that is no character (U+FFFE, U+FFFF, half a
surrogate pair). Where they pad a value they are left out. Within one U+FFFD replaces them, so that no number becomes
another patient's by what was left out. Marks that nobody sees (zero width spaces, marks of direction) are left out as
padding too, as a number that was copied with one is still that number; within a value they stay.
"""

import re
from collections.abc import Sequence
from typing import Final

from engine.hl7.delimiters import Delimiters

LOST: Final = "\ufffd"
ILLEGAL: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]"
INVISIBLE: Final = r"[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
_CONTROLS: Final = bytes(number for number in range(32) if number not in b"\t\r\n")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_FOUND: Final = re.compile(ILLEGAL)
_PADS: Final = f"{ILLEGAL[1:-1]}{INVISIBLE[1:-1]}"
_RUN: Final = re.compile(f"[{_PADS}][ {_PADS}]*")
_NO_ASCII: Final = re.compile(f"[\ufffe\uffff{INVISIBLE[1:-1]}]")


def may_be_illegible(raw: bytes, text: str) -> bool:
    """True if a message may hold such a character: a test of microseconds, as nearly none does."""
    if len(raw.translate(None, _CONTROLS)) != len(raw):
        return True
    return not text.isascii() and _NO_ASCII.search(text) is not None


def legible(texts: Sequence[str], delimiters: Delimiters) -> list[str]:
    """Return the texts of segments without such characters."""
    marks = "".join(delimiters)
    return [
        _FOUND.sub(LOST, _without_padding(text, marks)) if _FOUND.search(text) or _NO_ASCII.search(text) else text
        for text in texts
    ]


def illegible(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the segments that hold such a character, each once; '' for what is no name."""
    names = (text[:3] if _NAME.fullmatch(text[:3]) else "" for text in texts if _FOUND.search(text))
    return tuple(dict.fromkeys(names))


def _without_padding(text: str, marks: str) -> str:
    """Return a text without the runs that begin or end a part of it; each run is looked at once, however long it is."""

    def kept(found: re.Match[str]) -> str:
        start, end = found.span()
        while start and text[start - 1] == " ":
            start -= 1
        inside = start and text[start - 1] not in marks and end < len(text) and text[end] not in marks
        return found[0] if inside else ""

    return _RUN.sub(kept, text)
