"""The rows of a code table in a CSV file: read whole, checked line by line, and kept in little memory.

A header names the columns: the keys of the table, then `code`, `display`, `system` and `original`, as in a line of
`codes`. UTF-8, commas, quotes as in RFC 4180.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from io import StringIO
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.config.text import URI
from engine.errors import Problem
from engine.mapping.files.reference import nearest

ROWS: Final = "rows"
TABLE_KEYS: Final = "keys"
# The column of a table with one key that names none.
KEY: Final = "key"
COLUMNS: Final = ("code", "display", "system", "original")
# Separates the keys of a code in YAML, and in messages.
JOINED_BY: Final = "|"
MOST_BYTES: Final = 64 * 1_048_576
MOST_ROWS: Final = 500_000
MOST_CELL: Final = 1000
MOST_FAULTS: Final = 20
PLACEHOLDER: Final = "..."
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}\.csv")

# Separates the cells of a row in memory; refused in files.
_NUL: Final = "\0"


class CsvRow(NamedTuple):
    """One row: its line, and its cells, each empty for none."""

    line: int
    code: str
    display: str
    system: str
    original: str


@dataclass(frozen=True, slots=True)
class TableRows:
    """The rows of one CSV file by their keys, joined by `|`; `digest` is of the file's bytes.

    `packed`: the line and the cells of each as one text, to take less memory. `folded`: the keys by their form without
    case, where that is another one.
    """

    file: str
    digest: str
    packed: Mapping[str, str]
    folded: Mapping[str, str]

    def __contains__(self, key: object) -> bool:
        """True if a row has the key."""
        return key in self.packed

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.packed)

    def __iter__(self) -> Iterator[str]:
        """Yield the keys in the order of the file."""
        return iter(self.packed)

    def __getitem__(self, key: str) -> CsvRow:
        """Return the row of a key; KeyError if there is none."""
        line, code, display, system, original = self.packed[key].split(_NUL)
        return CsvRow(int(line), code, display, system, original)


def keys_of(value: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of a table's keys; those of one that names none are `key` alone."""
    named = value.get(TABLE_KEYS)
    return tuple(map(str, named)) if isinstance(named, list) and named else (KEY,)


def read_rows(path: Path, keys: Sequence[str], text: str | None, problems: list[Problem]) -> TableRows | None:
    """Read the rows of a table whose keys are named; faults go to `problems`, and make None.

    `text`: what is read in place of the file.
    """
    raw = _bytes_of(path, problems) if text is None else text.encode("utf-8", "surrogatepass")
    if raw is None:
        return None
    try:
        decoded = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        problems.append(_problem(path, line, "", "bytes that are not UTF-8", "save the file as CSV in UTF-8"))
        return None
    if _NUL in decoded:
        line = decoded.count("\n", 0, decoded.index(_NUL)) + 1
        problems.append(_problem(path, line, "", "a NUL character", "save the file as CSV in UTF-8"))
        return None
    reading = _Reading(path, tuple(keys))
    rows = reading.rows(csv.reader(StringIO(decoded, newline=""), strict=True))
    problems += reading.problems
    if reading.problems:
        return None
    folded = {other: key for key in rows if (other := key.casefold()) != key}
    return TableRows(str(path), sha256(raw).hexdigest(), rows, folded)


def _bytes_of(path: Path, problems: list[Problem]) -> bytes | None:
    try:
        size = path.stat().st_size
        if size <= MOST_BYTES:
            return path.read_bytes()
    except OSError as error:
        problems.append(_problem(path, 1, "", f"cannot be read ({error.strerror})", "put the file beside its table"))
        return None
    problems.append(_problem(path, 1, "", f"{size} bytes", f"give a file of at most {MOST_BYTES} bytes"))
    return None


def _problem(path: Path, line: int, column: str, found: str, expected: str) -> Problem:
    return Problem(str(path), line, 1, column, found, expected)


class _Reading:
    """One reading of a file; `problems`: the first faults."""

    def __init__(self, path: Path, keys: tuple[str, ...]) -> None:
        self.problems: list[Problem] = []
        self._path = path
        self._keys = keys
        self._systems = {""}

    def rows(self, lines: Any) -> dict[str, str]:
        """Return the rows by their keys."""
        found: dict[str, str] = {}
        try:
            header: list[str] = next(lines, [])
            order = self._order([one.strip() for one in header])
            if order is not None:
                self._fill(found, lines, len(header), order)
        except csv.Error as error:
            self._note(lines.line_num, "", f"no CSV: {error}", "write commas between cells, and quotes around a comma")
        if not found and not self.problems:
            self._note(1, "", "a header without rows", "write a row for each code below the header")
        return found

    def _order(self, header: list[str]) -> tuple[list[int], list[int]] | None:
        """Return the places of the keys and of the columns in a line, -1 for none; None for a bad header."""
        known = {*self._keys, *COLUMNS}
        expected = ",".join((*self._keys, *COLUMNS[:2]))
        for name in header:
            if name not in known:
                self._note(1, name, f"unknown column {name!r}", nearest(name, known, f"the header {expected}"))
            elif header.count(name) > 1:
                self._note(1, name, f"the column {name!r} twice", "keep one of them")
        for name in (*self._keys, COLUMNS[0]):
            if name not in header:
                self._note(1, name, f"no column {name!r}", f"write a header such as {expected}")
        if self.problems:
            return None
        return [header.index(one) for one in self._keys], [header.index(o) if o in header else -1 for o in COLUMNS]

    def _fill(self, found: dict[str, str], lines: Any, width: int, order: tuple[list[int], list[int]]) -> None:
        keys, (code, display, system, original) = order
        first, several = keys[0], len(keys) > 1
        for line in lines:
            if not line:
                continue
            if len(line) != width or max(map(len, line)) > MOST_CELL or PLACEHOLDER in line:
                self._odd(line, width, lines.line_num)
                continue
            # What the header lacks is read here, at -1.
            line.append("")
            key = JOINED_BY.join([line[at].strip() for at in keys]) if several else line[first].strip()
            odd = key in found or not key.strip(JOINED_BY) or line[system] not in self._systems
            if odd and not self._accepts(key, line[system], found, lines.line_num):
                continue
            if len(found) >= MOST_ROWS:
                self._note(lines.line_num, "", f"more than {MOST_ROWS:,} rows", "give a smaller table")
                return
            cells = (
                str(lines.line_num),
                line[code].strip(),
                line[display].strip(),
                line[system],
                line[original].strip(),
            )
            found[key] = _NUL.join(cells)

    def _odd(self, line: list[str], width: int, number: int) -> None:
        if len(line) != width:
            self._note(number, "", f"{len(line)} cells", f"expected {width}, as in the header")
        elif PLACEHOLDER in line:
            self._note(number, "", f"the placeholder {PLACEHOLDER!r}", "write what the code stands for")
        else:
            self._note(number, "", f"a cell of {max(map(len, line))} characters", f"shorten it to at most {MOST_CELL}")

    def _accepts(self, key: str, system: str, found: Mapping[str, str], number: int) -> bool:
        """True if a row with a new system is sound; else note what is wrong with it."""
        if key in found:
            self._note(
                number, "", f"{key!r} again", f"it is in line {found[key].partition(_NUL)[0]} already: keep one of them"
            )
        elif not key.strip(JOINED_BY):
            self._note(number, "", "a row without a key", f"give it a {' or '.join(self._keys)}")
        elif system not in self._systems and not URI.fullmatch(system):
            self._note(number, "", f"the system {system!r}", "expected the code system's URI, such as urn:x")
        else:
            self._systems.add(system)
            return True
        return False

    def _note(self, line: int, column: str, found: str, expected: str) -> None:
        if len(self.problems) < MOST_FAULTS:
            self.problems.append(_problem(self._path, line, column, found, expected))
