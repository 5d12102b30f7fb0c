"""Escape sequences: the encoding of delimiters, bytes, line ends and character set switches in leaf values.

Undone only after cutting (chapter 2, use of escape sequences in text fields). A sequence that is not known here stays
as it is; so does an escape character that begins none.
"""

import re
from collections.abc import Iterator
from typing import Final

from engine.hl7 import iso2022
from engine.hl7.charset import decode_bytes
from engine.hl7.delimiters import USUAL, Delimiters
from engine.hl7.legible import ILLEGAL

MAXIMUM_SPACES: Final = 100
_SHAPE: Final = re.compile(r"[A-Z.][A-Za-z0-9.+\-]*")
_HEXADECIMAL: Final = re.compile(r"X((?:[0-9A-Fa-f]{2})+)")
_WIDE_END: Final = re.compile(r"X000[ADad]")
_LINE_END: Final = re.compile(r"\r\n?")
_SWITCH: Final = re.compile(r"C(?:[0-9A-Fa-f]{2}){2}|M(?:[0-9A-Fa-f]{2}){2,3}")
_SPACES: Final = re.compile(r"\.sp[+]?([0-9]{0,3})")
_CONTROL: Final = re.compile(ILLEGAL)
_LETTERS: Final = "FSRETP"
_USUAL_OF: Final = dict(zip(_LETTERS, f"|{USUAL}#", strict=True))
_HIGHLIGHTING: Final = frozenset({"H", "N"})


def unescape(text: str, delimiters: Delimiters, charset: str = "utf-8") -> str:
    r"""Return the text with its escape sequences undone.

    `\F\ \S\ \T\ \R\ \E\ \P\` become the declared delimiter (the usual one where none is), `\Xhh..\` the text of its
    bytes in `charset` (what holds a control character but tabs and line ends stays as it is: FHIR has no such text; CR,
    also written `000D`, and CR LF are line feeds as `\.br\` is one),
    `\.br\` and `\.spN\` line feeds (N at most 100), `\H\` and `\N\` nothing; after `\Cxxyy\` and `\Mxxyyzz\` the
    following characters are read as bytes of that set until the next switch. Never longer than the text but for
    `\.spN\`; linear in its length.
    """
    mark = delimiters.escape
    if not mark or mark not in text:
        return text
    parts: list[str] = []
    pending: list[str] = []
    switch = ""
    for plain, body in _sequences(text, mark):
        if pending and (plain or body[:1] != "X"):
            parts.append(_of_bytes(pending, mark, charset))
            pending = []
        if plain:
            parts.append(_in_set(plain, switch, mark))
        if _HEXADECIMAL.fullmatch(body):
            pending.append(body[3:] if _WIDE_END.fullmatch(body) else body[1:])
        elif _SWITCH.fullmatch(body) and bytes.fromhex(body[1:]) in iso2022.SETS:
            switch = body
        elif body:
            parts.append(_meaning(body, delimiters))
    return "".join(parts)


def escape(text: str, delimiters: Delimiters) -> str:
    r"""Return the text with delimiters escaped and line ends as `\X0D\` and `\X0A\`.

    Without a declared escape character the text comes back as it is: there is no way to say it.
    """
    mark = delimiters.escape
    if not mark:
        return text
    letters = zip(_LETTERS, delimiters, strict=True)
    names = {ord(character): f"{mark}{letter}{mark}" for letter, character in letters if character}
    names |= {13: f"{mark}X0D{mark}", 10: f"{mark}X0A{mark}"}
    return text.translate(names)


def _sequences(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """Yield (plain text, body of the sequence behind it); the last body is ''."""
    pieces = text.split(mark)
    plain = [pieces[0]]
    at, last = 1, len(pieces) - 1
    while at <= last:
        body = pieces[at]
        if at < last and _SHAPE.fullmatch(body):
            yield "".join(plain), body
            plain = [pieces[at + 1]]
            at += 2
        else:
            plain.append(mark + body)
            at += 1
    yield "".join(plain), ""


def _meaning(body: str, delimiters: Delimiters) -> str:
    """Return the text that a sequence encodes; an unknown one is kept as it is."""
    if body in _USUAL_OF:
        return delimiters[_LETTERS.index(body)] or _USUAL_OF[body]
    if body in _HIGHLIGHTING:
        return ""
    if body == ".br":
        return "\n"
    spaces = _SPACES.fullmatch(body)
    if spaces and int(spaces[1] or "1") <= MAXIMUM_SPACES:
        return "\n" * int(spaces[1] or "1")
    return f"{delimiters.escape}{body}{delimiters.escape}"


def _of_bytes(pending: list[str], mark: str, charset: str) -> str:
    """Decode hexadecimal sequences that stand side by side: together they may be one character, else one by one."""
    whole = _printable("".join(pending), charset)
    if whole is not None:
        return whole
    found = ((digits, _printable(digits, charset)) for digits in pending)
    return "".join(f"{mark}X{digits}{mark}" if text is None else text for digits, text in found)


def _printable(digits: str, charset: str) -> str | None:
    """Return the text of bytes; None where they are none of the set, or hold a control character that no text has."""
    text = decode_bytes(bytes.fromhex(digits), charset)
    if text is None or _CONTROL.search(text):
        return None
    return _LINE_END.sub("\n", text) if "\r" in text else text


def _in_set(text: str, switch: str, mark: str) -> str:
    """Read text as bytes of the set last switched to; where it is none of that set, switch and text stay."""
    if not switch:
        return text
    try:
        return iso2022.decode(iso2022.ESCAPE + bytes.fromhex(switch[1:]) + text.encode("latin-1"), None)
    except UnicodeError:
        return f"{mark}{switch}{mark}{text}"
