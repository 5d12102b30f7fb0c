"""Characters that no FHIR text may hold, taken out of what is mapped; the bytes that came in stay as they are.

FHIR `string`: no control characters but tab and line ends; and nothing that is no character (U+FFFE, U+FFFF, half a
surrogate pair). Where they pad a value they are left out. Within one U+FFFD stands for them, so that no number becomes
another patient's by what was left out.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from engine.hl7.delimiters import Delimiters

LOST: Final = "\ufffd"
ILLEGAL: Final = r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]"
_CONTROLS: Final = bytes(number for number in range(32) if number not in b"\t\r\n")
_NAME: Final = re.compile(r"[A-Z][A-Z0-9]{2}")
_FOUND: Final = re.compile(ILLEGAL)


def may_be_illegible(raw: bytes, text: str) -> bool:
    """Say whether a message may hold such a character: told in microseconds, as nearly none does."""
    if len(raw.translate(None, _CONTROLS)) != len(raw):
        return True
    return not text.isascii() and ("\ufffe" in text or "\uffff" in text)


def legible(texts: Sequence[str], delimiters: Delimiters) -> list[str]:
    """Return the texts of segments without such characters."""
    padding = _padding("".join(filter(None, delimiters)))
    return [_FOUND.sub(LOST, padding.sub("", text)) if _FOUND.search(text) else text for text in texts]


def illegible(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the segments that hold such a character, each once; '' for what is no name."""
    names = (text[:3] if _NAME.fullmatch(text[:3]) else "" for text in texts if _FOUND.search(text))
    return tuple(dict.fromkeys(names))


@lru_cache(maxsize=64)
def _padding(delimiters: str) -> re.Pattern[str]:
    marks = re.escape(delimiters)
    return re.compile(rf"(?:(?<=[{marks}])|\A){ILLEGAL}+|{ILLEGAL}+(?=[{marks}]|\Z)")
