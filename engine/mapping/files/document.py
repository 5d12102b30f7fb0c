"""Authored mapping files: read from their folders and extended, with the place of every entry."""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Optional, TypeVar

from engine.config.source import AuthoredFile, parse, read, scan, scan_text
from engine.errors import ConfigurationError, Problem
from engine.mapping.files.kinds import misshapen, without
from engine.mapping.files.overlay import ADD, EXTENDS, LEVELS, REPLACES, Key, laid_over, unsaid
from engine.mapping.files.reference import GUIDE, RESOURCES, nearest, resource_types, type_names
from engine.mapping.files.table_rows import NAME, ROWS, TableRows, keys_of, read_rows

_Case = TypeVar("_Case")

# Texts in place of existing or new files: an author's unsaved edits.
Edited = Mapping[Path, str]
NONE: Final[Edited] = {}
SHIPPED: Final = "shipped/"
SHIPS: Final = "the shipped mappings"
TABLE: Final = "table"
# The event table that ships for a mapping of another name.
EVENT_TABLE: Final = Path("adt.yaml")
# The folder of packs: mappings for the profiles of a country or a guide, which a site extends.
PACKS: Final = "packs"
KINDS: Final = ("resources", "datatypes", "tables")
# The folder of the outgoing mapping, and its kinds of files.
OUT: Final = "out"
OUT_SEGMENTS: Final = f"{OUT}/segments"
OUT_DATATYPES: Final = f"{OUT}/datatypes"
FOLDERS: Final = frozenset({*KINDS, OUT, PACKS, "tests"})
KEYS: Final = {
    "resources": "resource",
    "datatypes": "datatype",
    "tables": "table",
    OUT_SEGMENTS: "segment",
    OUT_DATATYPES: "datatype",
}
CODES: Final = "codes"
# Parts of a file that must be maps, with what a line of them looks like.
SECTIONS: Final = {"elements": "birthDate: PID-7 | date", "merged": "identifier: {each: MRG-1, as: CX}"}
PATIENT_KEYS: Final = frozenset({"resource", "extends", "elements", "merged", "new"})


def _resource_of(stem: str) -> str:
    return type_names().get(stem.lower(), stem)


# The keys that name a document, with their defaults made of the file's name.
NAMED: Final[Mapping[str, Callable[[str], str]]] = {
    "mapping": str,
    "resource": _resource_of,
    "datatype": str.upper,
    "segment": str.upper,
    "table": str,
}


@dataclass(frozen=True, slots=True)
class Document:
    """One mapping file, merged with the one that it extends; `moved` has the places of added entries in the file.

    `below`: the one that it extends, a shipped file or that of a pack. `ships`: it is not one of the site's own.
    `rows`: those of a table in a CSV file.
    """

    source: AuthoredFile
    value: dict[str, Any]
    below: Optional["Document"] = None
    moved: Mapping[tuple[Key, ...], tuple[Key, ...]] = field(default_factory=dict)
    ships: bool = False
    rows: TableRows | None = None

    @property
    def name(self) -> str:
        """The name that other files use; empty for an event file, and for a file without one."""
        return next((str(self.value[key]) for key in KEYS.values() if key in self.value), "")

    def problem(self, path: tuple[Key, ...], found: str, expected: str) -> Problem:
        """Return a problem at `path`, in the site's own file.

        Shipped files are valid by themselves: if a line of one is wrong, the file that extends it is the cause.
        """
        if (row := self._row(self.authored(path))) is not None:
            return Problem(*row, 1, ".".join(map(str, path)), found, expected)
        source, path = self.origin(path)
        if source is self.source:
            return self.source.problem(path, found, expected)
        problem = self.source.problem(path, f"{found} ({_line_of(source, path)})", expected)
        line, column = self.source.place(path if path[:1] in self.source.places else ("extends",))
        return problem._replace(line=line, column=column)

    def is_shipped(self, path: tuple[Key, ...]) -> bool:
        """True if the entry at a path is in a shipped file."""
        return self.ships or self.origin(path)[0] is not self.source

    def shown(self, path: tuple[Key, ...]) -> str:
        """Return words for the place of a path, with the file's name without its folder."""
        if (row := self._row(self.authored(path))) is not None:
            return f"line {row[1]} of {Path(row[0]).name}"
        source, authored = self.origin(path)
        if self.is_shipped(path):
            return _line_of(source, authored)
        return f"line {source.place(authored)[0]} of {Path(source.file).name}"

    def place(self, path: tuple[Key, ...]) -> tuple[str, int]:
        """Return the file and line of `path`, or of its nearest ancestor."""
        if (row := self._row(self.authored(path))) is not None:
            return row
        source, path = self.origin(path)
        return source.file, source.place(path)[0]

    def _row(self, path: tuple[Key, ...]) -> tuple[str, int] | None:
        """Return the CSV file and line of a code, None if the code is in YAML, or in neither."""
        if self.rows is None or len(path) < 2 or path[0] != CODES or path[1] in (self.value.get(CODES) or ()):
            return None
        code = str(path[1])
        return (self.rows.file, self.rows[code].line) if code in self.rows else None

    def authored(self, path: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return the path as its author wrote it."""
        for end in range(len(path), 2, -1):
            if path[:end] in self.moved:
                return (*self.moved[path[:end]], *path[end:])
        return self.moved.get(path, path)

    def origin(self, path: tuple[Key, ...]) -> tuple[AuthoredFile, tuple[Key, ...]]:
        """Return the file that has a path, or the longest part of it, and the path there."""
        path = self.authored(path)
        if self.below is None or path[:1] == (ADD,) or _says(self.source.value, path):
            return self.source, path
        below, at = self.below.origin(path)
        return (self.source, path) if _depth(self.source, path) >= _depth(below, at) else (below, at)


@dataclass(frozen=True, slots=True)
class Documents:
    """All files of one mapping: the event table, and resources, data types and tables by name."""

    events: Document
    resources: dict[str, Document]
    datatypes: dict[str, Document]
    tables: dict[str, Document]

    def everything(self) -> Iterator[Document]:
        """Yield every document once."""
        yield self.events
        for group in (self.resources, self.datatypes, self.tables):
            yield from group.values()

    @property
    def digest(self) -> str:
        """The digest of all files; the order of files does not matter, that of lines does."""
        mark = hashlib.sha256()
        for kind, group in (("resource", self.resources), ("datatype", self.datatypes), ("table", self.tables)):
            for name in sorted(group):
                rows = group[name].rows
                text = f"{kind} {name} {group[name].value!r}{f' {rows.digest}' if rows is not None else ''}\n"
                mark.update(text.encode("utf-8", "surrogatepass"))
        mark.update(repr(self.events.value).encode("utf-8", "surrogatepass"))
        return mark.hexdigest()


class Problems:
    """Gathers problems, so that all of them are reported at once."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self._own: list[Document] = []

    def of(self, documents: Iterable[Document]) -> None:
        """Set the files that the problems are in: one of the site's own is the cause of a problem in a shipped one."""
        self._own = [document for document in documents if not document.ships]

    def add(self, document: Document, path: tuple[Key, ...], found: str, expected: str) -> None:
        """Note one problem; a problem in a shipped file is noted in the site's own file that causes it."""
        if document.ships and self._own:
            named = f"{found} {_at(document.value, path)!r}"
            cause = next((one for one in self._own if one.name and one.name in named), self._own[0])
            problem = cause.source.problem((), f"{found} ({document.shown(path)})", expected)
        else:
            problem = document.problem(path, found, expected)
        if problem not in self.found:
            self.found.append(problem)

    def keys(self, document: Document, path: tuple[Key, ...], known: Collection[str], value: Iterable[str]) -> None:
        """Note each unknown key of an authored map."""
        for key in value:
            if key not in known:
                self.add(document, (*path, key), f"unknown key {key!r}", nearest(key, set(known), GUIDE))

    def refuse(self) -> None:
        """Raise ConfigurationError if anything was found."""
        if self.found:
            raise ConfigurationError(tuple(sorted(self.found)))


def mapping_names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the mappings in folders."""
    return sorted({path.stem for folder in folders for path in folder.glob("*.yaml")})


def read_documents(folders: Sequence[Path], name: str, problems: Problems, edited: Edited = NONE) -> Documents:
    """Read the mapping `name`: each file from the first folder that has it; the last folder is the shipped one.

    A site's files below `NAME/` (`NAME/resources/patient.yaml`) are of that mapping alone, before all others. Where the
    event table extends a pack, the pack's files lie between the site's and the shipped ones. ConfigurationError if
    there is no event table; other faults go to `problems`.
    """
    events = read_document(folders, Path(f"{name}.yaml"), "mapping", problems, edited)
    if events is None and not problems.found:
        places, names = ", ".join(str(folder) for folder in folders), mapping_names(folders)
        raise ConfigurationError(
            (Problem(f"{name}.yaml", 1, 1, "", f"not found in {places}", nearest(name, names, "the mapping folders")),)
        )
    for folder in folders[:-1]:
        _unread(folder, problems)
    if events is not None:
        _mend(events, problems)
    alone = [folder / name for folder in folders[:-1] if name not in FOLDERS]
    pack = pack_of(folders[-1], events.value.get(EXTENDS)) if events is not None else None
    groups = {kind: read_group([*alone, *folders], kind, problems, edited, pack) for kind in KINDS}
    if events is None:
        # Already reported; the other files are checked all the same.
        events = Document(AuthoredFile(f"{name}.yaml", {}, {}), {}, ships=True)
    return Documents(events, groups["resources"], groups["datatypes"], groups["tables"])


def pack_of(ships: Path, extended: Any) -> Path | None:
    """Return the folder of the pack that `extends: packs/NAME` names; None where it names none that ships."""
    kind, _, name = extended.partition("/") if isinstance(extended, str) else ("", "", "")
    return ships / PACKS / name if kind == PACKS and name in pack_names(ships) else None


def pack_names(ships: Path) -> list[str]:
    """Return the names of the packs that ship."""
    return sorted(folder.name for folder in (ships / PACKS).glob("*") if folder.is_dir())


def yaml_in(folder: Path, edited: Edited = NONE) -> list[Path]:
    """Return the YAML files of a folder by name, including new edited ones."""
    return sorted({*folder.glob("*.yaml"), *(path for path in edited if path.parent == folder)})


def read_cases_by(
    cases_of: Callable[[AuthoredFile, list[Problem]], Iterable[_Case]], files: Iterable[Path], edited: Edited = NONE
) -> tuple[_Case, ...]:
    """Read the cases of files, or of texts in their place; ConfigurationError holds every problem.

    `cases_of` reads those of one file, and adds what is wrong with them to the problems.
    """
    problems: list[Problem] = []
    cases: list[_Case] = []
    for file in files:
        try:
            source = parse(edited[file], str(file)) if file in edited else read(file)
        except ConfigurationError as error:
            problems += error.problems
            continue
        cases += cases_of(source, problems)
    if problems:
        raise ConfigurationError(tuple(problems))
    return tuple(cases)


def read_group(
    folders: Sequence[Path], kind: str, problems: Problems, edited: Edited, pack: Path | None = None
) -> dict[str, Document]:
    """Read all files of a kind by what they are about; each from the first folder that has it."""
    every = [*folders, pack] if pack is not None else folders
    names = sorted({path.name for folder in every for path in yaml_in(folder / kind, edited)})
    group: dict[str, Document] = {}
    for name in names:
        document = read_document(folders, Path(kind, name), KEYS[kind], problems, edited, pack)
        if document is None:
            continue
        own = document.value[KEYS[kind]]
        _shape(document, problems)
        if own in group:
            # Reported in the site's own file of the two, where the author can fix it.
            ships = Path(document.source.file).is_relative_to(folders[-1])
            reported, other = (group[own], document) if ships else (document, group[own])
            expected = f"write it there, or extend that: a {KEYS[kind]} has one file"
            found = f"{own!r} is what {Path(other.source.file).name} is about"
            problems.add(reported, (KEYS[kind],), found, expected)
        group[own] = document
    return group


def _depth(source: AuthoredFile, path: tuple[Key, ...]) -> int:
    """Return the length of the longest part of a path that a file has."""
    return next((end for end in range(len(path), 0, -1) if path[:end] in source.places), 0)


def _line_of(source: AuthoredFile, path: tuple[Key, ...]) -> str:
    """Return words for a line of a shipped file, or of a pack's."""
    file = Path(source.file)
    pack = file.parent if file.parent.parent.name == PACKS else file.parent.parent
    owner = f"the pack {pack.name}'s" if pack.parent.name == PACKS else "the shipped"
    return f"line {source.place(path)[0]} of {owner} {file.name}"


def _at(value: Any, path: tuple[Key, ...]) -> Any:
    """Return the value at a path, or at the longest part of it."""
    for step in path:
        if not isinstance(value, dict) or step not in value:
            break
        value = value[step]
    return value


def _says(value: Any, path: tuple[Key, ...]) -> bool:
    """True if a file replaces the entry of a path: then no part of it is in the file below."""
    whole = 2 + LEVELS.get(str(path[0]), 0) if path else 0
    for step in path[:whole]:
        if not isinstance(value, dict):
            return True
        if step not in value:
            return False
        value = value[step]
    return True


def _shape(document: Document, problems: Problems) -> None:
    """Note and remove sections that are not maps, so that the rest can be checked."""
    for section in SECTIONS:
        lines = document.value.get(section) or {}
        if not isinstance(lines, dict):
            found = f"found {lines[:60]!r}, not a map" if isinstance(lines, str) else "not a map"
            problems.add(document, (section,), found, f"expected lines such as {SECTIONS[section]}")
            document.value[section] = {}
    _mend(document, problems)
    if document.value.get("resource") == "Patient":
        problems.keys(document, (), PATIENT_KEYS, document.value)


def _mend(document: Document, problems: Problems) -> None:
    """Note and remove parts of the wrong kind."""
    for path, found, expected in list(misshapen(document.value)):
        problems.add(document, path, found, expected)
        without(document.value, path)


def _unread(folder: Path, problems: Problems) -> None:
    """Note unread files of a site's folder: with another ending, or in an unknown folder."""
    names = mapping_names([folder])
    for file in sorted(folder.glob("**/*.y*ml")):
        kind = file.relative_to(folder).parts[:-1]
        alone = len(kind) == 2 and kind[1] in KINDS
        if file.suffix != ".yaml" and (not kind or kind[0] in FOLDERS or (alone and kind[0] in names)):
            problems.found.append(Problem(str(file), 1, 1, "", f"the extension {file.suffix!r}", "name it .yaml"))
        elif alone and kind[0] not in names and get_close_matches(kind[0], names, n=1):
            found = f"the folder {kind[0]!r}, which is of no mapping"
            problems.found.append(Problem(str(file), 1, 1, "", found, nearest(kind[0], names)))
        elif kind and kind[0] not in {*FOLDERS, *names} and get_close_matches(kind[0], FOLDERS, n=1):
            found = f"the folder {kind[0]!r}"
            problems.found.append(Problem(str(file), 1, 1, "", found, nearest(kind[0], FOLDERS)))


def read_document(
    folders: Sequence[Path], path: Path, key: str, problems: Problems, edited: Edited, pack: Path | None = None
) -> Document | None:
    """Read one file from the first folder that has it, laid over the one that it extends; None for no file.

    That is the shipped one, or what the files of `pack` make of it.
    """
    found = [folder / path for folder in folders if folder / path in edited or (folder / path).is_file()]
    shipped = folders[-1] / path
    if pack is not None and (pack / path).is_file():
        shipped, found = pack / path, [*(file for file in found if file != shipped), pack / path]
    base = _base(found, shipped, key, problems, edited, (pack or folders[-1], folders[-1]))
    if not found or (base is not None and found == [shipped]):
        return base
    document = _read(found[0], key, problems, edited)
    if document is None:
        return base
    itself = found[0].is_file() and found[0].samefile(found[-1])
    own = (SHIPPED + path.stem, f"{SHIPPED}{path.parent}/{path.stem}")
    if fault := unsaid(document.value, own, ships=base is not None and not itself):
        problems.add(document, (REPLACES if REPLACES in document.value else key,), *fault)
    document.value.pop(REPLACES, None)
    if "extends" not in document.value:
        if base is not None and document.value[key] != base.value[key]:
            problems.add(
                document,
                (key,),
                f"found {document.value[key]!r}",
                f"expected {base.value[key]!r}, as the file that ships under this name",
            )
            document.value[key] = base.value[key]
        return replace(document, ships=len(folders) > 1 and found[0] == folders[-1] / path)
    below = document.value["extends"] if isinstance(document.value["extends"], str) else ""
    of_pack = below.startswith(f"{PACKS}/") and path.parent == Path()
    if key == "mapping" and (of_pack or (base is None and below.startswith(SHIPPED))):
        base = _event_table(folders, path, document, problems, edited)
    elif below not in own or base is None:
        problems.add(document, (EXTENDS,), *_astray(document.value[key], below, path, folders))
    if base is None:
        return None
    if document.value[key] != base.value[key]:
        problems.add(document, (key,), f"found {document.value[key]!r}", f"expected {base.value[key]!r}, as in {below}")
        document.value[key] = base.value[key]
    below_ = base.value
    if document.rows is not None:
        # The file's own rows replace codes of the one below.
        codes = {code: row for code, row in (below_.get(CODES) or {}).items() if code not in document.rows}
        below_ = {**below_, CODES: codes}
    merged, moved = laid_over(below_, document.value)
    return Document(document.source, merged, base, moved, rows=document.rows or base.rows)


def _base(
    found: Sequence[Path], shipped: Path, key: str, problems: Problems, edited: Edited, ships: tuple[Path, Path]
) -> Document | None:
    """Return what a site's file lies on: the shipped one, or the pack's as it lies on that; None for neither."""
    base = None
    if ships[0] != ships[1] and shipped.is_relative_to(ships[0]):
        base = read_document(ships, shipped.relative_to(ships[0]), key, problems, edited)
    elif len(found) > 1 and found[-1] == shipped:
        base = _read(shipped, key, problems, edited)
    return replace(base, ships=True) if base is not None else None


def _event_table(
    folders: Sequence[Path], path: Path, document: Document, problems: Problems, edited: Edited
) -> Document | None:
    """Return the event table that a site's own lies on: a pack's, or one that ships under another name.

    A pack without an event table of this name has that of the shipped one.
    """
    name, below = document.value["mapping"], document.value[EXTENDS]
    pack, another = pack_of(folders[-1], below), path.parent / f"{below.removeprefix(SHIPPED)}.yaml"
    base = None
    if pack is not None:
        ships = any((folder / path).is_file() for folder in (pack, folders[-1]))
        base = read_document((pack, folders[-1]), path if ships else EVENT_TABLE, "mapping", problems, edited)
    elif below.startswith(f"{PACKS}/"):
        expected = nearest(below, [f"{PACKS}/{one}" for one in pack_names(folders[-1])])
        problems.add(document, (EXTENDS,), f"found {below!r}, no pack", expected)
    elif below == f"{SHIPPED}{another.stem}" and (folders[-1] / another).is_file():
        # A second mapping beside the one that ships: it has a name of its own.
        base = _read(folders[-1] / another, "mapping", problems, edited)
    else:
        problems.add(document, (EXTENDS,), *_astray(name, below, path, folders))
    return replace(base, ships=True, value={**base.value, "mapping": name}) if base is not None else None


def _astray(own: str, below: str, path: Path, folders: Sequence[Path]) -> tuple[str, str]:
    """Return the fault of a file's `extends`, and what is expected."""
    ships = [file.stem for file in (folders[-1] / path.parent).glob("*.yaml")]
    meant = below.removeprefix(SHIPPED)
    if path.stem not in ships and meant in ships:
        return f"found {below!r} in {path.name}", f"name the file {meant}.yaml, as the one that it extends"
    itself = below in {path.stem, own, f"{path.parent}/{path.stem}"}
    what = f"{below!r}, which is this file itself" if itself else repr(below) if below else "no name"
    if path.stem in ships:
        return f"found {what}", f"expected '{SHIPPED}{path.stem}', a file that ships"
    return f"found {what}", f"give a file that ships: {nearest(path.stem, ships, SHIPS).removeprefix('expected ')}"


def _read(path: Path, key: str, problems: Problems, edited: Edited) -> Document | None:
    """Return a document; without a name of its own it gets the file's, so that the rest of it is checked, too."""
    try:
        source = scan_text(edited[path], str(path)) if path in edited else scan(path)
    except ConfigurationError as error:
        problems.found.extend(error.problems)
        return None
    problems.found.extend(source.problems)
    value, known = source.value, NAMED[key](path.stem)
    named = isinstance(value, dict) and isinstance(value.get(key), str)
    if not named:
        expected = f"write what it is, such as {key}: {known}"
        problems.found.append(source.problem((), f"no line '{key}: NAME'", expected))
    elif (
        key == "resource"
        and value[key] not in resource_types()
        and known in resource_types()
        and "extends" not in value
    ):
        problems.found.append(
            source.problem((key,), f"unknown resource {value[key]!r}", nearest(value[key], resource_types(), RESOURCES))
        )
        named = False
    if not isinstance(value, dict):
        return None
    rows = _rows_beside(path, source, problems, edited) if key == TABLE else None
    return Document(source, value if named else {**value, key: known}, rows=rows)


def _rows_beside(path: Path, source: AuthoredFile, problems: Problems, edited: Edited) -> TableRows | None:
    """Return the rows of the CSV file that a table names; None if it names none, or a bad one."""
    named = source.value.get(ROWS)
    if not isinstance(named, str):
        return None
    if not NAME.fullmatch(named):
        problems.found.append(source.problem((ROWS,), f"found {named!r}", f"name a file beside it: {path.stem}.csv"))
        return None
    file = path.with_name(named)
    return read_rows(file, keys_of(source.value), edited.get(file), problems.found)
