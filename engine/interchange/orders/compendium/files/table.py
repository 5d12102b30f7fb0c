"""The tests of a table (CSV): one a line below a line of headings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from engine.config.model import Step, nearest
from engine.config.source import AuthoredFile, Looked, Place, look
from engine.errors import Problem
from engine.interchange.orders.compendium.files.authored import TestTable
from engine.interchange.orders.compendium.files.cells import Malformed, TextCell, read_text, rows

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
