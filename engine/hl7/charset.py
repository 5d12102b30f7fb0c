"""Character sets: which one a message is in (MSH-18, table 0211), and its bytes as text.

Decoding comes before cutting, as the two-byte sets hold the bytes of delimiters. A name is read without spaces, hyphens
and the like, as senders write `ISOIR87` and `UTF-8`. Wide text (UTF-16, UTF-32) is known by its byte order mark or by
how `MSH` looks in it, since its MSH-18 cannot be read before it is decoded; a UTF-8 byte order mark counts likewise.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from engine.errors import UndecodableMessageError
from engine.hl7 import iso2022
from engine.hl7.iso2022 import CodeSet
from engine.hl7.leaf import NULL_TEXT

ISO_2022: Final = "iso-2022"
UTF8_MARK: Final = b"\xef\xbb\xbf"
_WIDE: Final = (
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"M\x00\x00\x00", "utf-32-le"),
    (b"\x00\x00\x00M\x00", "utf-32-be"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
    (b"M\x00", "utf-16-le"),
    (b"\x00M\x00", "utf-16-be"),
)
_BROADER: Final = {"iso8859_1": "cp1252", "iso8859_9": "cp1254"}
BROADER: Final = frozenset(_BROADER.values())
_UPPER_CONTROLS: Final = re.compile("[\x80-\x9f]")
_SINGLE_PARTS = (*range(1, 12), *range(13, 17))
_CODECS: Final[dict[str, str]] = {
    "ASCII": "ascii",
    "USASCII": "ascii",
    "ISOIR6": "ascii",
    "UNICODE": "utf-8",
    "UNICODEUTF8": "utf-8",
    "UTF8": "utf-8",
    "UNICODEUTF16": "utf-8",
    "UNICODEUTF32": "utf-8",
    "GB180302000": "gb18030",
    "GB18030": "gb18030",
    "KSX1001": "euc_kr",
    "BIG5": "big5",
    "ISOIR100": "iso8859_1",
    **{f"8859{part}": f"iso8859_{part}" for part in _SINGLE_PARTS},
    **{f"ISO8859{part}": f"iso8859_{part}" for part in _SINGLE_PARTS},
    **{f"WINDOWS{page}": f"cp{page}" for page in range(1250, 1259)},
    **{f"CP{page}": f"cp{page}" for page in range(1250, 1259)},
}
_FOR_ESCAPES: Final = {ISO_2022: "ascii", **{codec: "utf-8" for _, codec in _WIDE}}
_SWITCHING: Final = frozenset({"ISOIR14", "ISOIR87", "ISOIR159", "JISX0202", "JAS2020", "ISO20221994"})
_SWITCHED_TO: Final = {
    **dict.fromkeys(("ISOIR87", "JISX0202", "JAS2020", "ISO20221994"), "iso2022_jp"),
    "ISOIR159": "iso2022_jp_1",
}
_KANA: Final = iso2022.SETS[b")I"][1]
_LATIN_TEXT: Final = re.compile(r"[^A-Z0-9]+")
_NULL: Final = NULL_TEXT.encode()


class Coding(NamedTuple):
    """How bytes become text: a Python codec, or `iso-2022` with the set that the upper half begins with."""

    name: str
    high: CodeSet | None = None


def wide_codec(raw: bytes) -> str:
    """Return the codec of UTF-16 or UTF-32 bytes, '' for all others."""
    head = raw[:5]
    if head[:3] == b"MSH" or (b"\x00" not in head and head[:1] not in (b"\xff", b"\xfe")):
        return ""
    return next((codec for mark, codec in _WIDE if head.startswith(mark)), "")


@lru_cache(maxsize=256)
def coding_of(declared: bytes, repetition: bytes, default: str) -> Coding | None:
    """Read MSH-18: the first repetition is the set to begin with, more of them announce ISO 2022 switches.

    Nothing declared, or the null, means `default`, a Python codec or a name of table 0211. Returns None for an unknown
    name; names after the first are not looked at, as the switches in the text say which set they mean.
    """
    names = [part.strip() for part in (declared.split(repetition) if repetition else [declared])]
    if not any(names) or names == [_NULL]:
        return coding_of(default.encode(), b"~", "ascii") or Coding(default)
    first = _plain(names[0].decode("ascii", "replace"))
    if first in _SWITCHING:
        return Coding(ISO_2022, _KANA if first == "ISOIR14" else None)
    codec = _CODECS.get(first, "" if first else "ascii")
    if not codec:
        return None
    if len(names) == 1:
        return Coding(codec)
    return Coding(ISO_2022, None if codec == "ascii" else CodeSet((codec,), raised=False))


def switched_to(declared: bytes, repetition: bytes) -> tuple[str, ...]:
    """Return the Python codecs that write the sets which MSH-18 declares and ISO 2022 switches to."""
    names = [
        _plain(part.decode("ascii", "replace")) for part in (declared.split(repetition) if repetition else [declared])
    ]
    return tuple(_SWITCHED_TO[name] for name in names if name in _SWITCHED_TO)


def decode(raw: bytes, coding: Coding | None, *, replace: bool = False) -> tuple[str, str]:
    """Return the text of a message and the name of the codec that read it.

    An unknown set (None) is read as ASCII. What is declared as ISO 8859-1 or -9 and holds bytes that are control
    characters there is read as the Windows set that has letters in their place, if all of its bytes are of that. Raises
    UndecodableMessageError for bytes that are not of the set; with `replace` they become U+FFFD.
    """
    wide = wide_codec(raw)
    if wide:
        coding = Coding(wide)
    elif raw.startswith(UTF8_MARK):
        coding = Coding("utf-8")
    elif coding is None:
        coding = Coding("ascii")
    errors = "replace" if replace else "strict"
    try:
        if coding.name == ISO_2022:
            return iso2022.decode(raw, coding.high, errors), ISO_2022
        text = raw.decode(coding.name, errors)
    except UnicodeError:
        raise UndecodableMessageError from None
    broader = _BROADER.get(coding.name)
    if broader and not text.isascii() and _UPPER_CONTROLS.search(text):
        return _as_broader(raw, text, coding.name, broader)
    return text, coding.name


def _as_broader(raw: bytes, text: str, codec: str, broader: str) -> tuple[str, str]:
    try:
        return raw.decode(broader), broader
    except UnicodeError:
        return text, codec


def decode_bytes(data: bytes, codec: str) -> str | None:
    """Decode the bytes of a hexadecimal escape by a message's codec (UTF-8 in wide text); None if they do not fit."""
    try:
        return data.decode(_FOR_ESCAPES.get(codec, codec))
    except UnicodeError:
        return None


def _plain(name: str) -> str:
    return _LATIN_TEXT.sub("", name.upper())
