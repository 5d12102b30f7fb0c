"""The tests of a table (CSV, RFC 4180): one a line below a line of headings, each cell with its place."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.config.model import Step, nearest
from engine.config.source import AuthoredFile, Looked, Place, look
from engine.errors import ConfigurationError, Problem
from engine.interchange.orders.compendium.files.authored import TestTable

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


# Headings to the keys of a test; those that hold several values have ; between them.
COLUMNS: Final = ("code", "title", "synonyms", "loinc", "specimen", "specimen_code", "ask")
SEVERAL: Final = frozenset({"synonyms", "ask"})
SEPARATOR: Final = ";"
NEEDED: Final = ("code", "title")


def look_at_table(path: Path) -> Looked[TestTable]:
    """Read a table, going on after each mistake; ConfigurationError where it cannot be read at all."""
    return look(_source(str(path), read_text(path)), TestTable)


def _source(file: str, text: str) -> AuthoredFile:
    """Return the tests of a table with their places, and what is wrong with its form."""
    problems: list[Problem] = []
    found: list[tuple[TextCell, ...]] = []
    for row in rows(text):
        if isinstance(row, Malformed):
            problems.append(Problem(file, row.line, row.column, "", row.found, row.expected))
        else:
            found.append(row)
    headings, *lines = found or [()]
    problems += [Problem(file, *fault) for fault in _headings(headings)]
    names = [cell.text.casefold() for cell in headings]
    tests: list[dict[str, Any]] = []
    places: dict[tuple[Step, ...], Place] = {("tests",): (1, 1)}
    # Without its needed headings no line of it can be a test.
    for line in lines if set(NEEDED) <= set(names) else ():
        if len(line) > len(names):
            extra = line[len(names)]
            expected = f"{len(names)} cells, as in the first line; put a text with a comma in quotes"
            problems.append(Problem(file, extra.line, extra.column, "", f"{len(line)} cells", expected))
        at: tuple[Step, ...] = ("tests", len(tests))
        places[at] = line[0].line, line[0].column
        tests.append(_test(at, dict(zip(names, line, strict=False)), places))
    return AuthoredFile(file, {"tests": tests}, places, tuple(problems))


def _headings(headings: Sequence[TextCell]) -> Iterator[tuple[int, int, str, str, str]]:
    names = [cell.text.casefold() for cell in headings]
    for cell, name in zip(headings, names, strict=True):
        if name not in COLUMNS:
            yield cell.line, cell.column, "", f"the heading {cell.text!r}", nearest(name, COLUMNS)
        elif names.index(name) != next(number for number, one in enumerate(headings) if one is cell):
            yield cell.line, cell.column, "", f"the heading {name} a second time", "leave one of them out"
    missing = [name for name in NEEDED if name not in names]
    if missing:
        expected = f"a first line of headings with commas between them, such as {','.join(COLUMNS)}"
        yield 1, 1, "", f"no heading {' and no heading '.join(missing)}", expected


def _test(at: tuple[Step, ...], line: dict[str, TextCell], places: dict[tuple[Step, ...], Place]) -> dict[str, Any]:
    """Return a line as a test, without its empty cells, and note the place of each value."""
    test: dict[str, Any] = {}
    for name, cell in line.items():
        if name in COLUMNS:
            places[(*at, name)] = cell.line, cell.column
        if name in COLUMNS and (cell.text or name in NEEDED):
            several = [part for one in cell.text.split(SEPARATOR) if (part := one.strip())]
            test[name] = several if name in SEVERAL else cell.text
    code = test.pop("specimen_code", None)
    if code is not None:
        places[(*at, "specimen", "code")] = places[(*at, "specimen_code")]
        places.setdefault((*at, "specimen"), places[(*at, "specimen_code")])
        test["specimen"] = {"code": code, **({"text": test["specimen"]} if "specimen" in test else {})}
    return test
