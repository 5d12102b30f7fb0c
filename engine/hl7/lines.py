"""Segment ends: CR as the standard says, CRLF and LF as senders do, in text and in bytes.

CR always ends a segment. LF does where segments end in it: in a message without CR, or whose MSH ends in LF. There a
line that does not begin as a segment does belongs to the segment before it. Where segments end in CR a lone LF is text,
a line break that somebody typed into an address, unless a Z segment, or one that messages of the type have, begins
behind it. One that begins with another segment of the standard may be either: nobody can say, and `unclear` does.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from engine.hl7.names import KNOWN, carried_by, is_own

LEADING = "\x00\x0b\r\n\t \ufeff"
TRAILING = "\x0b\x1c\r\n\x00"
LEADING_BYTES = b"\x00\x0b\r\n\t \xef\xbb\xbf"
_NAMES: Final = rf"(?:{'|'.join(sorted(KNOWN))}|Z[A-Z0-9]{{2}})"
# Behind LF: a known segment, also with blanks, in small letters or as a bare name; or one as any sender writes it.
_MEANS: Final = rf"[ \t]*(?i:{_NAMES})[ \t]*(?:%s)|{_NAMES}(?=[\r\n]|\Z)"
_BEGINS: Final = rf"[A-Z][A-Z0-9]{{2}}(?:%s)|{_MEANS}"
_SURELY: Final = rf"({_NAMES})(?:%s)"
_BREAK: Final = re.compile(r"\n+")


class Lines(NamedTuple):
    """The texts of a message's segments, and the numbers, from 1, of those whose reading is worth a word.

    `by_feed`: a lone LF, where others end in CR, begins it. `kept`: it holds a line with fields that does not begin as
    a segment. `unclear`: it holds a lone LF that may, or may not, end a segment.
    """

    texts: list[str]
    by_feed: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    unclear: tuple[int, ...] = ()


@lru_cache(maxsize=64)
def _begins(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    return re.compile(_BEGINS % (mark, mark))


@lru_cache(maxsize=64)
def _means(separator: str) -> re.Pattern[str]:
    return re.compile(_MEANS % re.escape(separator))


@lru_cache(maxsize=64)
def _surely(separator: str) -> re.Pattern[str]:
    return re.compile(_SURELY % re.escape(separator))


def cut(body: str, separator: str) -> Lines:
    """Cut a message's text into the texts of its segments, without their ends; blank lines are left out."""
    if "\n" in body:
        body = body.replace("\r\n", "\r")
    if "\n" not in body:
        lines = body.split("\r")
        return Lines([line for line in lines if line] if "" in lines else lines)
    if "\r" not in body and _all_begin_segments(lines := body.split("\n"), separator):
        return Lines(lines)
    if _ends_in_feed(body, separator):
        return _cut_at_feeds(body, separator)
    return _cut_at_returns(body, separator)


def _all_begin_segments(lines: list[str], separator: str) -> bool:
    """True if every line begins as a segment with fields does: a cheap test for the common case of LF ends."""
    for line in lines:
        name = line[:3]
        if line[3:4] != separator or not (name.isupper() and name.isalnum() and name.isascii() and name[0].isalpha()):
            return False
    return True


def _ends_in_feed(body: str, separator: str) -> bool:
    """Tell whether segments end in LF: there is no CR, or LF ends the first one."""
    end = body.find("\r")
    if end < 0:
        return True
    first = _BREAK.search(body, 0, end)
    return first is not None and _means(separator).match(body, first.end()) is not None


def _cut_at_feeds(body: str, separator: str) -> Lines:
    texts: list[str] = []
    kept: list[int] = []
    begins = _begins(separator)
    for line in body.split("\r"):
        begun = 0
        for found in _BREAK.finditer(line):
            if found.end() == len(line) or begins.match(line, found.end()):
                _add(texts, line[begun : found.start()])
                begun = found.end()
            elif separator in line[found.end() :].partition("\n")[0]:
                kept.append(len(texts) + 1)
        _add(texts, line[begun:])
    return Lines(texts, kept=tuple(dict.fromkeys(kept)))


def _cut_at_returns(body: str, separator: str) -> Lines:
    texts: list[str] = []
    by_feed: list[int] = []
    unclear: list[int] = []
    surely = _surely(separator)
    carried = carried_by(_type_of(body, separator))
    for line in body.split("\r"):
        begun = 0
        for found in _BREAK.finditer(line):
            begins = surely.match(line, found.end())
            if found.end() == len(line):
                _add(texts, line[begun : found.start()])
                begun = found.end()
            elif begins and (begins[1] in carried or is_own(begins[1])):
                _add(texts, line[begun : found.start()])
                begun = found.end()
                by_feed.append(len(texts) + 1)
            elif begins:
                unclear.append(len(texts) + 1)
        _add(texts, line[begun:])
    return Lines(texts, by_feed=tuple(by_feed), unclear=tuple(dict.fromkeys(unclear)))


def _add(texts: list[str], text: str) -> None:
    if text:
        texts.append(text)


def _type_of(body: str, separator: str) -> str:
    """Return MSH-9.1 of a message's text, as nearly as cutting needs it."""
    fields = body.split(separator, 9)
    if len(fields) < 9 or not fields[1]:
        return ""
    return fields[8].split(fields[1][0], 1)[0].strip()


def first_segment(body: bytes, separator: bytes) -> bytes:
    """Return the bytes of the first segment without its end."""
    end = body.find(b"\r")
    first = body if end < 0 else body[:end]
    if b"\n" not in first:
        return first
    # Each byte one character: names and line ends are ASCII in every set that is read so.
    mark = separator.decode("latin-1")
    return cut(body[: end + 1 or None].decode("latin-1"), mark).texts[0].encode("latin-1")
