"""Imports of code tables: a CSV export, a ConceptMap or a ValueSet becomes a table file with its rows in a CSV file.

Each row keeps its line, or its place in the resource, so that a fault names it. UsageError holds the first faults.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from typing import Any, Final, NamedTuple

import orjson

from engine.errors import UsageError
from engine.mapping.files.table_rows import JOINED_BY, KEY, MOST_BYTES, MOST_CELL, MOST_FAULTS, MOST_ROWS, PLACEHOLDER

CODE: Final = "code"
DISPLAY: Final = "display"
DELIMITERS: Final = ",;\t|"
# What of a file the delimiter is found by.
SAMPLE: Final = 65_536
NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
# Relationships of a ConceptMap by closeness (R4's equivalences, then R5's); others are no translation.
CLOSENESS: Final = (
    "equal", "equivalent", "wider", "subsumes", "narrower", "specializes", "inexact", "relatedto",
    "source-is-narrower-than-target", "source-is-broader-than-target", "related-to",
)  # fmt: skip
DEEPEST: Final = 20


class ImportedRow(NamedTuple):
    """One row: its keys, its FHIR code, and the place that a fault names."""

    keys: tuple[str, ...]
    code: str
    display: str = ""
    system: str = ""
    original: str = ""
    place: str = ""


class ImportOptions(NamedTuple):
    """What the author says of a source: its columns, delimiter, and the source code system of a ConceptMap's groups."""

    keys: tuple[str, ...] = ()
    code: str = ""
    display: str = ""
    delimiter: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class ImportedTable:
    """A table: its rows, and what its source says of itself, each empty for nothing.

    `unmapped`: the code for all others, where a ConceptMap has one. `notes`: what was left out.
    """

    rows: tuple[ImportedRow, ...]
    keys: tuple[str, ...] = (KEY,)
    name: str = ""
    source: str = ""
    licence: str = ""
    date: str = ""
    system: str = ""
    unmapped: dict[str, str] | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Faults:
    """The faults of one file."""

    file: str
    found: list[str] = field(default_factory=list)

    def add(self, place: str, text: str) -> None:
        """Note a fault, unless there are enough."""
        if len(self.found) < MOST_FAULTS:
            self.found.append(f"{self.file}:{place}: {text}")

    def refuse(self) -> None:
        """Raise UsageError if there are faults."""
        if self.found:
            raise UsageError("\n".join(self.found))


def imported(raw: bytes, file: str, options: ImportOptions) -> ImportedTable:
    """Return the table in a file, JSON by its ending `.json`; UsageError names each fault with its line or path."""
    if len(raw) > MOST_BYTES:
        raise UsageError(f"{file}: {len(raw)} bytes; give a file of at most {MOST_BYTES} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{file}:{line}: bytes that are not UTF-8; save the file in UTF-8") from error
    faults = _Faults(file)
    made = _of_resource(text, options, faults) if file.lower().endswith(".json") else _of_csv(text, options, faults)
    _check(made, faults)
    faults.refuse()
    return made


def _check(made: ImportedTable, faults: _Faults) -> None:
    """Note what the table's own file could not hold: codes twice or without a key, long cells, too many rows."""
    first: dict[tuple[str, ...], ImportedRow] = {}
    for row in made.rows:
        if not any(row.keys):
            faults.add(row.place, "a row without a key; fill it in, or take the row out")
        elif (other := first.setdefault(row.keys, row)) is not row:
            faults.add(row.place, f"{JOINED_BY.join(row.keys)!r} again, as in {other.place}; keep one of them")
        for cell in (*row.keys, row.code, row.display, row.original):
            if len(cell) > MOST_CELL or cell == PLACEHOLDER or "\0" in cell:
                found = f"a cell of {len(cell)} characters" if len(cell) > MOST_CELL else f"found {cell!r}"
                faults.add(row.place, f"{found}; write a text of at most {MOST_CELL} characters")
    if not made.rows:
        faults.add("1", "no rows; give a file with codes")
    if len(made.rows) > MOST_ROWS:
        faults.add("1", f"{len(made.rows):,} rows; give at most {MOST_ROWS:,}")


def _of_csv(text: str, options: ImportOptions, faults: _Faults) -> ImportedTable:
    delimiter = options.delimiter or _delimiter(text)
    lines = csv.reader(StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [one.strip() for one in next(lines, [])]
        columns = _columns(header, options, faults)
        rows = tuple(_csv_rows(lines, header, columns, faults)) if columns is not None else ()
    except csv.Error as error:
        raise UsageError(
            f"{faults.file}:{lines.line_num}: no CSV ({error}); name what separates cells with --delimiter"
        ) from error
    faults.refuse()
    used = {*(columns or {}).values()}
    left = [name for number, name in enumerate(header) if number not in used]
    notes = (f"columns left out: {', '.join(left)}",) if left else ()
    keys = options.keys if len(options.keys) > 1 else (KEY,)
    return ImportedTable(rows, tuple(_word(key) for key in keys), notes=notes)


def _delimiter(text: str) -> str:
    """Return what separates the cells of a CSV text: of the candidates, the one that its header has most."""
    try:
        return csv.Sniffer().sniff(text[:SAMPLE], DELIMITERS).delimiter
    except csv.Error:
        header = text.partition("\n")[0]
        return max(DELIMITERS, key=header.count)


def _columns(header: list[str], options: ImportOptions, faults: _Faults) -> dict[str, int] | None:
    """Return the numbers of the columns by what they hold (`key 0`, `code`, ...); None, and faults, for missing ones.

    Without options columns have the names of a table's file, or else the first is the key, the second the code and
    the third the display.
    """
    named = {f"key {number}": name for number, name in enumerate(options.keys)}
    named |= {what: name for what, name in ((CODE, options.code), (DISPLAY, options.display)) if name}
    if not options.keys:
        plain = KEY in header and (options.code or CODE in header)
        named |= {"key 0": KEY if plain else header[0] if header else ""}
    if not options.code:
        free = [name for name in header if name not in named.values()]
        named[CODE] = CODE if CODE in free else free[0] if free else ""
    for what in (DISPLAY, "system", "original"):
        if what not in named and what in header:
            named[what] = what
    rest = [name for name in header if name not in named.values()]
    if DISPLAY not in named and not options.code and rest:
        named[DISPLAY] = rest[0]
    for name in named.values():
        if header.count(name) != 1:
            found = f"the column {name!r} twice" if name in header else f"no column {name!r}"
            faults.add("1", f"{found}; the header has {', '.join(header) or 'nothing'}")
    return None if faults.found else {what: header.index(name) for what, name in named.items()}


def _csv_rows(lines: Any, header: list[str], columns: dict[str, int], faults: _Faults) -> Iterator[ImportedRow]:
    keys = [at for what, at in columns.items() if what.startswith("key ")]
    code, display, system, original = (columns.get(one, -1) for one in (CODE, DISPLAY, "system", "original"))
    for line in lines:
        if not line:
            continue
        if len(line) != len(header):
            faults.add(str(lines.line_num), f"{len(line)} cells; the header has {len(header)}")
            continue
        cells = [*(cell.strip() for cell in line), ""]
        yield ImportedRow(
            tuple([cells[at] for at in keys]),
            cells[code],
            cells[display],
            cells[system],
            cells[original],
            str(lines.line_num),
        )


def _of_resource(text: str, options: ImportOptions, faults: _Faults) -> ImportedTable:
    try:
        resource = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{faults.file}:{error.lineno}: no JSON ({error.msg}); give a FHIR resource") from error
    kind = resource.get("resourceType") if isinstance(resource, dict) else None
    read = {"ConceptMap": _of_concept_map, "ValueSet": _of_value_set}.get(str(kind))
    if read is None:
        raise UsageError(f"{faults.file}:1: found {str(kind)[:60]!r}; give a ConceptMap or a ValueSet")
    made = read(resource, options, faults)
    url, version = _text(resource, "url"), _text(resource, "version")
    return replace(
        made,
        name=_word(_text(resource, "id") or _text(resource, "name")),
        source=" ".join(part for part in (url, version) if part),
        licence=_text(resource, "copyright"),
        date=_text(resource, "date")[:10],
    )


def _of_concept_map(resource: dict[str, Any], options: ImportOptions, faults: _Faults) -> ImportedTable:
    groups = _maps(resource, "group", "group", faults)
    sources = [_text(one, "source") for _, one in groups]
    chosen = [one for one in groups if options.group in {"", _text(one[1], "source")}]
    if not chosen:
        known = ", ".join(dict.fromkeys(sources)) or "none"
        faults.add("group", f"no group of {options.group or 'any source'}; there are {known}")
    rows: list[ImportedRow] = []
    several = 0
    for path, group in chosen:
        for place, element in _maps(group, "element", f"{path}.element", faults):
            targets = _targets(element, place, faults)
            several += len(targets) > 1
            best = targets[0] if targets else {}
            code, name = _text(element, CODE), _text(element, DISPLAY)
            rows.append(
                ImportedRow((code,), _text(best, CODE), _text(best, DISPLAY), _text(group, "target"), name, place)
            )
    notes = (f"codes with several targets, of which the closest one was taken: {several}",) if several else ()
    rest = chosen[0][1].get("unmapped") if len(chosen) == 1 else None
    code = _text(rest, CODE) if isinstance(rest, dict) else ""
    target = _text(chosen[0][1], "target") if chosen else ""
    fixed = {CODE: code, DISPLAY: _text(rest, DISPLAY), "system": target} if code else None
    return _plain(ImportedTable(tuple(rows), notes=notes, unmapped=fixed))


def _targets(element: dict[str, Any], place: str, faults: _Faults) -> list[dict[str, Any]]:
    """Return the targets of an element, the closest first."""
    ranked: list[tuple[int, dict[str, Any]]] = []
    for _, target in _maps(element, "target", f"{place}.target", faults):
        said = _text(target, "equivalence") or _text(target, "relationship") or CLOSENESS[0]
        if said in CLOSENESS and _text(target, CODE):
            ranked.append((CLOSENESS.index(said), target))
    return [target for _, target in sorted(ranked, key=lambda one: one[0])]


def _of_value_set(resource: dict[str, Any], _: ImportOptions, faults: _Faults) -> ImportedTable:
    expansion = resource.get("expansion")
    if isinstance(expansion, dict):
        rows = tuple(_contained(expansion, "expansion.contains", faults, 0))
    else:
        rows = tuple(_composed(resource.get("compose"), faults))
    return _plain(ImportedTable(rows))


def _contained(part: dict[str, Any], path: str, faults: _Faults, depth: int) -> Iterator[ImportedRow]:
    if depth > DEEPEST:
        faults.add(path, f"nested deeper than {DEEPEST} levels; give a flat expansion")
        return
    for place, one in _maps(part, "contains", path, faults):
        if code := _text(one, CODE) if one.get("abstract") is not True else "":
            yield ImportedRow((code,), code, _text(one, DISPLAY), _text(one, "system"), "", place)
        yield from _contained(one, f"{place}.contains", faults, depth + 1)


def _composed(compose: Any, faults: _Faults) -> Iterator[ImportedRow]:
    for path, include in _maps(compose if isinstance(compose, dict) else {}, "include", "compose.include", faults):
        concepts = _maps(include, "concept", f"{path}.concept", faults)
        if not concepts:
            faults.add(path, "codes that are not listed; expand the ValueSet ($expand), and give that")
        for place, one in concepts:
            code = _text(one, CODE)
            yield ImportedRow((code,), code, _text(one, DISPLAY), _text(include, "system"), "", place)


def _plain(made: ImportedTable) -> ImportedTable:
    """Return a table whose rows leave out a system that all of them have, and names that say nothing more."""
    systems = {row.system for row in made.rows if row.code}
    system = next(iter(systems)) if len(systems) == 1 else ""
    rows = tuple(
        row._replace(
            system="" if row.system == system or not row.code else row.system,
            original="" if row.original == row.display else row.original,
        )
        for row in made.rows
    )
    return replace(made, rows=rows, system=system)


def _maps(part: dict[str, Any], key: str, path: str, faults: _Faults) -> list[tuple[str, dict[str, Any]]]:
    """Return the objects in a list of a resource, each with its path; what is none is a fault."""
    found = part.get(key)
    items = found if isinstance(found, list) else [] if found is None else [found]
    for number, one in enumerate(items):
        if not isinstance(one, dict):
            faults.add(f"{path}[{number}]", "no object; give a valid resource")
    return [(f"{path}[{number}]", one) for number, one in enumerate(items) if isinstance(one, dict)]


def _text(part: Any, key: str) -> str:
    """Return a text of an object on one line, empty for none."""
    found = part.get(key) if isinstance(part, dict) else None
    return " ".join(found.split()) if isinstance(found, str) else ""


def _word(text: str) -> str:
    """Return a text as a name: small letters, digits and hyphens."""
    parted = re.sub(r"([a-z0-9])([A-Z])", r"\1-\2", text).lower()
    return re.sub(r"[^a-z0-9]+", "-", parted).strip("-")[:64].strip("-")


def table_files(made: ImportedTable, name: str) -> dict[str, str]:
    """Return the two files of a table by their paths in a mapping folder."""
    lines: dict[str, Any] = {"table": name, "source": made.source, "licence": made.licence, "date": made.date}
    lines |= {"system": made.system} if made.system else {}
    lines |= {"keys": list(made.keys)} if made.keys != (KEY,) else {}
    default = {what: text for what, text in (made.unmapped or {}).items() if text}
    lines |= {"unmapped": {"default": default}} if default else {}
    lines["rows"] = f"{name}.csv"
    head = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in lines.items())
    return {f"tables/{name}.yaml": head, f"tables/{name}.csv": _csv_text(made)}


def _csv_text(made: ImportedTable) -> str:
    used = [(one, at) for at, one in enumerate((CODE, DISPLAY, "system", "original"), 1) if at == 1 or _any(made, at)]
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*made.keys, *(name for name, _ in used)])
    writer.writerows(_cells(made.rows, [at for _, at in used]))
    return out.getvalue()


def _any(made: ImportedTable, at: int) -> bool:
    return any(row[at] for row in made.rows)


def _cells(rows: Iterable[ImportedRow], used: Sequence[int]) -> Iterator[list[str]]:
    for row in rows:
        yield [*row.keys, *(str(row[at]) for at in used)]
