"""The elements of a resource file compiled to slices: what each source field says of each element."""

from collections.abc import Callable
from functools import reduce
from typing import Any, Final, NamedTuple

from engine.fhir.changes import INDICATORS
from engine.fhir.plan import ElementChange, Keep
from engine.hl7.leaf import NULL
from engine.mapping.files.document import Document
from engine.mapping.files.entry import FIELD, slice_of
from engine.mapping.files.reference import Element, elements, nearest
from engine.mapping.language.expression import SEGMENT, may_ask_event
from engine.mapping.language.node import Step
from engine.mapping.language.reading import Reading, Sources
from engine.mapping.language.scope import Path, Scope
from engine.mapping.language.template import Compiler

IDENTIFIER: Final = "identifier"
# How names begin that only a plan can resolve.
NAME: Final = "#"
Write = Callable[[Reading, list[ElementChange]], None]


class Said(NamedTuple):
    """What one slice says: its changes, the warnings that came with them, and the resources that these refer to.

    `stand_in`: it names nobody in particular.
    """

    changes: tuple[ElementChange, ...]
    warnings: tuple[str, ...]
    made: dict[str, Keep]
    stand_in: bool = False


class Writer(NamedTuple):
    """What writes the changes of one slice, and the fields it reads (0: the segment): none valued, nothing written.

    `always`: it may have something to say even so, a constant. `refers`: its values may name what only a plan can
    resolve, as `#patient`. `by_event`: what it writes may depend on the event.
    """

    write: Write
    sources: Sources
    always: bool
    refers: bool
    by_event: bool

    def read(self, reading: Reading) -> Said:
        """Return what the slice says; to its warnings belong repetitions that nothing of it has read."""
        own = reading.apart()
        changes: list[ElementChange] = []
        self.add(own, changes)
        return Said(tuple(changes), tuple(own.warnings), own.made)

    def add(self, reading: Reading, changes: list[ElementChange]) -> None:
        """Add what the slice says to changes, and what is to be noted to a reading that several slices share."""
        if reading.once or reading.whole:
            reading.once, reading.whole = [], []
        self.write(reading, changes)
        if reading.once:
            reading.warn_left_out()


class Identifiers(NamedTuple):
    """The step that makes a list of identifiers, the fields it reads, and whether it may depend on the event."""

    step: Step
    sources: Sources
    by_event: bool

    def read(self, reading: Reading) -> tuple[tuple[Any, ...], list[str]]:
        """Return the FHIR identifiers, each system and value once, and the warnings that came with them."""
        own = reading.apart()
        made = self.step(None, own)
        once: dict[tuple[str, str], Any] = {}
        for item in () if made is None or made is NULL else made:
            once.setdefault((item.get("system", ""), item["value"]), item)
        return tuple(once.values()), own.warnings


class Slices:
    """Compiles the elements of one resource file, or of one part of it: `at`."""

    def __init__(self, compiler: Compiler, document: Document, type_: str, at: Path = ()) -> None:
        self._compiler = compiler
        self._scope = Scope(document, at)
        self._value: dict[str, Any] = reduce(lambda value, key: value[str(key)], at, document.value)
        self._type = type_
        self._names: dict[str, Path] = {}

    def writers(self) -> tuple[Writer, ...]:
        """Return what writes the changes of each element but the identifiers, in the order of the file."""
        authored = self._authored()
        writers: list[Writer] = []
        self._chosen_once(authored)
        for name, value in authored.items():
            if name == IDENTIFIER or value is None or (name.startswith("_") and name[1:] in authored):
                continue
            path: Path = ("elements", name)
            if name.endswith("[x]"):
                writers.append(self._writer(self._choice(value, path), value, always=True))
                continue
            element = self._element(name, path)
            if element is None:
                continue
            if element.many:
                writers.extend(self._many(name, value, path, element))
            else:
                writers.append(self._single(name, value, authored.get(f"_{name}"), path, element))
        return tuple(writers)

    def parts(self) -> frozenset[str]:
        """Return the elements that were compiled, and the slices of lists as `location(PV1-3)`."""
        return frozenset(self._authored()) | {f"{path[1]}({name})" for name, path in self._names.items()}

    def identifiers(self, section: str = "elements") -> Identifiers:
        """Return what makes all identifiers of a section (`merged`: those of the merged side)."""
        value = (self._value.get(section) or {}).get(IDENTIFIER) or []
        scope = self._scope.at(section, IDENTIFIER)
        made = self._compiler.many(value, scope, Element("Identifier", many=True))
        return Identifiers(made.step, sources_of(value), self._by_event(value))

    def _authored(self) -> dict[str, Any]:
        value = self._value.get("elements")
        if isinstance(value, dict):
            return value
        self._compiler.problem(self._scope.at("elements"), "no elements", "map at least one element")
        return {}

    def _chosen_once(self, authored: dict[str, Any]) -> None:
        """Note elements that stand by themselves and in a choice, too: each would undo the other."""
        for choice, entries in authored.items():
            if choice.endswith("[x]"):
                names = {name for entry in _entries(entries) if isinstance(entry, dict) for name in entry}
                for name in sorted(names & {one for one, value in authored.items() if value is not None}):
                    at = self._scope.at("elements", name)
                    self._compiler.problem(at, f"{name} beside {choice}", f"write it as a line of {choice}")

    def _element(self, name: str, path: Path) -> Element | None:
        root, _, part = name.partition(".")
        known = elements()[self._type]
        element, listed = known.get(root), False
        if element is not None and part:
            known = elements().get(element.type_, {})
            listed = element.many
            element = None if listed else known.get(part)
        if element is None:
            found = f"{self._type} has no element {name!r}"
            expected = f"{root} is a list; write {root}: {{{part}: ...}}" if listed else nearest(name, known)
            self._compiler.problem(self._scope.at(*path), found, expected)
        return element

    def _single(self, name: str, value: Any, beside: Any, path: Path, element: Element) -> Writer:
        made = self._compiler.value(value, self._scope.at(*path), element)
        if beside is None:
            return self._writer(_write_single(name, made.step), value, always=made.always)
        companion = self._compiler.object(beside, self._scope.at("elements", f"_{name}"), "Element")
        write = _write_pair(name, made.step, companion.step)
        return self._writer(write, [value, beside], always=made.always or companion.always)

    def _choice(self, value: Any, path: Path) -> Write:
        entries = _entries(value)
        steps: list[tuple[str, Step]] = []
        for number, entry in enumerate(entries):
            if not isinstance(entry, dict) or len(entry) != 1:
                expected = "give one line such as deceasedBoolean: PID-30"
                self._compiler.problem(self._scope.at(*path, number), "no single element", expected)
                continue
            name, part = next(iter(entry.items()))
            element = self._element(name, (*path, number, name))
            if element is not None:
                at: Path = (*path, number, name)
                steps.append((name, self._compiler.value(part, self._scope.at(*at), element).step))
        return _write_choice(tuple(steps))

    def _many(self, name: str, value: Any, path: Path, element: Element) -> list[Writer]:
        listed = isinstance(value, list)
        writers: list[Writer] = []
        for number, entry in enumerate(value if listed else [value]):
            at: Path = (*path, number) if listed else path
            made = self._compiler.items(entry, self._scope.at(*at), element)
            write = _write_many(name, self._slice(name, entry, at), made.step)
            writers.append(self._writer(write, entry, always=made.always))
        return writers

    def _writer(self, write: Write, entry: Any, *, always: bool) -> Writer:
        refers = self._compiler.types_refer or NAME in repr(entry)
        return Writer(write, sources_of(entry), always, refers, self._by_event(entry))

    def _by_event(self, entry: Any) -> bool:
        return self._compiler.types_by_event or may_ask_event(entry)

    def _slice(self, name: str, entry: Any, path: Path) -> str:
        slice_ = slice_of(name, entry)
        if not slice_:
            self._compiler.problem(self._scope.at(*path), "no source field", "name the part with 'slice'")
        if slice_ in self._names:
            line = self._scope.document.place((*self._scope.path, *self._names[slice_]))[1]
            found = f"{slice_} a second time (first in line {line})"
            self._compiler.problem(self._scope.at(*path), found, "join the two, or name one with 'slice'")
        self._names[slice_] = path
        return slice_


def _entries(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def sources_of(entry: Any) -> Sources:
    """Return every field that an entry reads."""
    if isinstance(entry, dict):
        each = entry.get("each")
        if isinstance(each, str) and SEGMENT.fullmatch(each):
            others = (source for part in entry.values() for source in sources_of(part) if source[0] != each)
            return tuple(dict.fromkeys(((each, 0), *others)))
        return tuple(dict.fromkeys(source for part in entry.values() for source in sources_of(part)))
    if isinstance(entry, list):
        return tuple(dict.fromkeys(source for part in entry for source in sources_of(part)))
    found = FIELD.finditer(entry) if isinstance(entry, str) else ()
    return tuple(dict.fromkeys((match[1], int(match[2])) for match in found))


def _write_single(name: str, step: Step) -> Write:
    deleted = ElementChange(name, name, (), many=False)

    def write(reading: Reading, changes: list[ElementChange]) -> None:
        value = step(None, reading)
        if value is NULL:
            changes.append(deleted)
        elif value is not None:
            changes.append(ElementChange(name, name, (value,), many=False))

    return write


def _write_pair(name: str, step: Step, companion: Step) -> Write:
    beside = f"_{name}"
    deleted, bare = ElementChange(name, name, (), many=False), ElementChange(beside, beside, (), many=False)

    def write(reading: Reading, changes: list[ElementChange]) -> None:
        value = step(None, reading)
        if value is NULL:
            changes += (deleted, bare)
            return
        more = companion(None, reading)
        if value is None and not isinstance(more, dict):
            return
        changes.append(deleted if value is None else ElementChange(name, name, (value,), many=False))
        changes.append(ElementChange(beside, beside, (more,), many=False) if isinstance(more, dict) else bare)

    return write


def _write_choice(steps: tuple[tuple[str, Step], ...]) -> Write:
    deletions = {name: ElementChange(name, name, (), many=False) for name, _ in steps}

    def write(reading: Reading, changes: list[ElementChange]) -> None:
        deleted = []
        for name, step in steps:
            value = step(None, reading)
            if value is NULL:
                deleted.append(deletions[name])
            elif value is not None:
                said = ElementChange(name, name, (value,), many=False)
                if value is True and name in INDICATORS:
                    changes += (*deleted, said)
                else:
                    changes += (said, *(one for other, one in deletions.items() if other != name))
                return
        changes.extend(deleted)

    return write


def _write_many(name: str, slice_: str, step: Step) -> Write:
    deleted = ElementChange(name, slice_, (), many=True)

    def write(reading: Reading, changes: list[ElementChange]) -> None:
        items = step(None, reading)
        if items is NULL:
            changes.append(deleted)
        elif items is not None:
            changes.append(ElementChange(name, slice_, tuple(items), many=True))

    return write
