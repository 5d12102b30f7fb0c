"""Detects the character set of a message from its bytes, whatever MSH-18 declares."""

import re
from enum import StrEnum
from typing import Final

from engine.errors import UndecodableMessageError
from engine.hl7.charset import UTF8_MARK, coding_of, decode, wide_codec
from engine.hl7.header import character_set
from engine.hl7.iso2022 import ESCAPE

# Bytes that are characters in Windows code pages, but not in ISO 8859.
_PAGES: Final = frozenset(range(0x80, 0xA0))


class DetectedEncoding(StrEnum):
    """The encoding detected from the bytes of a message."""

    ASCII = "ASCII"
    UTF8 = "UTF-8"
    MARKED = "UTF-8 with a byte order mark"
    WIDE = "UTF-16 or UTF-32"
    SWITCHING = "ISO 2022 (escape sequences)"
    LATIN = "one byte a character, or a set of the Far East"
    PAGE = "one byte a character, of a Windows code page"


# The form of an unknown set's name: letters with digits, unlike other content of a broken MSH-18.
_NAME: Final = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9 ./_-]{1,20}")

# The `charset` of a channel for messages that declare none and are not UTF-8.
GUESSES: Final = {DetectedEncoding.LATIN: "8859/1", DetectedEncoding.PAGE: "cp1252"}


def detected_encoding(raw: bytes) -> DetectedEncoding:
    """Return the encoding of the bytes of a message."""
    if wide_codec(raw):
        return DetectedEncoding.WIDE
    if raw.startswith(UTF8_MARK):
        return DetectedEncoding.MARKED
    if raw.isascii():
        return DetectedEncoding.SWITCHING if ESCAPE in raw else DetectedEncoding.ASCII
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return DetectedEncoding.PAGE if _PAGES.intersection(raw) else DetectedEncoding.LATIN
    return DetectedEncoding.UTF8


def declared_shown(raw: bytes) -> str:
    """Return MSH-18; its length if it is not the name of a character set."""
    wide = wide_codec(raw)
    declared, repetition = character_set(raw.decode(wide, "replace").encode() if wide else raw)
    text = declared.decode("ascii", "replace")
    names = [part for part in text.split(repetition.decode("latin-1") or "~") if part.strip()]
    known = (coding_of(name.encode(), b"~", "UTF-8") or _NAME.fullmatch(name) for name in names)
    return text if all(known) else f"({len(text)} characters)"


def fault(raw: bytes) -> str:
    """Return the fault of a message's declared character set, by its bytes; empty if there is none."""
    detected = detected_encoding(raw)
    # Wide bytes and a byte order mark identify the set; MSH-18 then does not matter.
    marked = detected in {DetectedEncoding.WIDE, DetectedEncoding.MARKED}
    declared, repetition = (b"", b"") if marked else character_set(raw)
    coding = coding_of(declared, repetition, "UTF-8")
    if coding is None:
        return "MSH-18 is no character set of table 0211"
    try:
        decode(raw, coding)
    except UndecodableMessageError:
        unsaid = not declared and not marked
        return "MSH-18 is empty, which means UTF-8, and this is none" if unsaid else "bytes that are not of it"
    if detected is DetectedEncoding.UTF8 and coding.name not in {"utf-8", "gb18030", "big5", "euc_kr"}:
        return "these bytes are UTF-8"
    return ""
