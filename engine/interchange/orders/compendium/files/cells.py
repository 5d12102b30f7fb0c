"""A table as laboratories hand it over: CSV (RFC 4180), its cells with line and column."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import ConfigurationError, Problem

MAX_BYTES: Final = 16_777_216
# A quoted cell, or one without quotes, blanks around it left out; then what ends it.
CELL: Final = re.compile(r'[ \t]*(?:"((?:[^"]|"")*)"|([^,\r\n"]*?))[ \t]*(,|\r\n|\n|\r|\Z)')
LINE: Final = re.compile(r"\r\n|\n|\r")


class TextCell(NamedTuple):
    """A cell, without its quotes, and where it begins."""

    text: str
    line: int
    column: int


class Malformed(NamedTuple):
    """What keeps a table from being read further, and where."""

    line: int
    column: int
    found: str
    expected: str


def read_text(path: Path) -> str:
    """Return the text of a table; ConfigurationError where it cannot be read, or is not UTF-8."""
    try:
        size = path.stat().st_size
        raw = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise _refused(path, 1, 1, f"cannot be read ({error.strerror})", "give a readable file") from error
    if size > MAX_BYTES:
        raise _refused(path, 1, 1, f"{size} bytes", f"a file of at most {MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        expected = "UTF-8: save the table as CSV UTF-8"
        raise _refused(path, line, column, "bytes that are not UTF-8", expected) from error


def rows(text: str) -> Iterator[tuple[TextCell, ...] | Malformed]:
    """Yield the rows of a table but empty ones; at what is no cell, what is wrong, and nothing more."""
    at, line, start = 0, 1, 0
    row: list[TextCell] = []
    while at < len(text):
        found = CELL.match(text, at)
        if found is None:
            yield _malformed(text, at, line, at - start + 1)
            return
        quoted = found[1] is not None
        begin = found.start(1) - 1 if quoted else found.start(2)
        row.append(TextCell(found[1].replace('""', '"').strip() if quoted else found[2], line, begin - start + 1))
        breaks = list(LINE.finditer(text, at, found.end()))
        if breaks:
            line, start = line + len(breaks), breaks[-1].end()
        at = found.end()
        if found[3] != ",":
            yield from _row(row)
            row = []
    if row:
        yield from _row(row)


def _row(row: list[TextCell]) -> Iterator[tuple[TextCell, ...]]:
    if any(cell.text for cell in row):
        yield tuple(row)


def _malformed(text: str, at: int, line: int, column: int) -> Malformed:
    begin = text[at : at + 200].lstrip(" \t")
    if begin.startswith('"') and text.find('"', text.index('"', at) + 1) < 0:
        return Malformed(line, column, "a quote that is never closed", 'close it with "')
    return Malformed(line, column, "a quote within a cell", 'put the whole cell in quotes, and write "" for one in it')


def _refused(path: Path, line: int, column: int, found: str, expected: str) -> ConfigurationError:
    return ConfigurationError((Problem(str(path), line, column, "", found, expected),))
