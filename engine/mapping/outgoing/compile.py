"""Reads, checks and compiles the files of an outgoing mapping: a pure function from a change to one HL7 message."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import ConfigurationError, MappingError, Problem
from engine.hl7.conformance.check import ConformanceRule, misplaced
from engine.hl7.events import known_trigger, structure
from engine.mapping.files.document import (
    NONE,
    OUT,
    OUT_DATATYPES,
    OUT_SEGMENTS,
    Document,
    Edited,
    Problems,
    read_document,
    read_group,
)
from engine.mapping.files.reference import GUIDE, kind_of, listed, nearest
from engine.mapping.files.table import MappingTable, make_table
from engine.mapping.language.check_table import BACK, check_table
from engine.mapping.language.scope import Scope
from engine.mapping.outgoing.backward import BackwardAuthorities, BackwardTable, SystemName, check_backward
from engine.mapping.outgoing.change import (
    DEFAULT_VERSION,
    AdtMessage,
    ChangeKind,
    FhirChange,
    NothingToSend,
    OutgoingSetting,
    TracedField,
)
from engine.mapping.outgoing.functions import BackwardContext
from engine.mapping.outgoing.reading import ChangeReading
from engine.mapping.outgoing.rule import Test
from engine.mapping.outgoing.template import CompiledSegment, OutgoingCompiler
from engine.mapping.outgoing.write import LEFT_OUT, MessageWriter

TOP_KEYS: Final = frozenset({"mapping", "extends", "systems", "events"})
CHOICE_KEYS: Final = frozenset({"when", "unless", "event", "segments", "nothing"})
CODING_SYSTEM: Final = "coding-system"
MISSING: Final = "required-segment-missing"
NO_EVENT: Final = "no-event"
VERSIONS_CHECKED: Final = ("2.3", DEFAULT_VERSION, "2.8")


@dataclass(frozen=True, slots=True)
class OutgoingDocuments:
    """The files of one outgoing mapping: which change is which event, segments, data types and tables by name."""

    events: Document
    segments: dict[str, Document]
    datatypes: dict[str, Document]
    tables: dict[str, Document]

    def everything(self) -> Iterator[Document]:
        """Yield every document once."""
        yield self.events
        for group in (self.segments, self.datatypes, self.tables):
            yield from group.values()

    @property
    def digest(self) -> str:
        """The digest of all files; the order of files does not matter, that of lines does."""
        mark = hashlib.sha256(repr(self.events.value).encode("utf-8", "surrogatepass"))
        for kind, group in (("segment", self.segments), ("datatype", self.datatypes), ("table", self.tables)):
            for name in sorted(group):
                mark.update(f"{kind} {name} {group[name].value!r}\n".encode("utf-8", "surrogatepass"))
        return mark.hexdigest()


@dataclass(frozen=True, slots=True)
class OutgoingSource:
    """An outgoing mapping as it was read, with the problems of reading."""

    name: str
    documents: OutgoingDocuments
    problems: tuple[Problem, ...] = ()


class EventChoice(NamedTuple):
    """One line of a kind of change: its condition, its event and segments, or why nothing is sent; and its place."""

    test: Test
    event: str
    segments: tuple[str, ...]
    nothing: str
    scope: Scope


class OutgoingOutcome(NamedTuple):
    """What became of a change, for people: the message or why there is none, and what each rule made."""

    made: AdtMessage | NothingToSend
    trace: tuple[TracedField, ...]
    rule: tuple[str, int]


def read_outgoing(folders: Sequence[Path], name: str = "adt", edited: Edited = NONE) -> OutgoingSource:
    """Read an outgoing mapping without checks, which compiling makes; the last folder is the shipped one.

    ConfigurationError if there is no `out/NAME.yaml`.
    """
    problems = Problems()
    events = read_document(folders, Path(OUT, f"{name}.yaml"), "mapping", problems, edited)
    if events is None:
        if problems.found:
            problems.refuse()
        places = ", ".join(str(folder / OUT) for folder in folders)
        names = sorted({path.stem for folder in folders for path in (folder / OUT).glob("*.yaml")})
        raise ConfigurationError(
            (Problem(f"{OUT}/{name}.yaml", 1, 1, "", f"not found in {places}", nearest(name, names)),)
        )
    groups = {kind: read_group(folders, kind, problems, edited) for kind in (OUT_SEGMENTS, OUT_DATATYPES, "tables")}
    documents = OutgoingDocuments(events, groups[OUT_SEGMENTS], groups[OUT_DATATYPES], groups["tables"])
    return OutgoingSource(name, documents, tuple(problems.found))


def compile_outgoing(source: OutgoingSource, setting: OutgoingSetting | None = None) -> "OutgoingMapping":
    """Compile an outgoing mapping for a destination; ConfigurationError holds every problem of every file."""
    documents = source.documents
    own = setting or OutgoingSetting()
    problems = Problems()
    problems.found.extend(source.problems)
    problems.of(documents.everything())
    problems.keys(documents.events, (), TOP_KEYS, documents.events.value)
    systems = _systems(documents.events, problems)
    tables = _Tables(documents.tables, problems)
    names = SystemName(tables[CODING_SYSTEM] if CODING_SYSTEM in documents.tables else None)
    context = BackwardContext(own, tables, BackwardAuthorities(own, systems), names)
    compiler = OutgoingCompiler(context, documents.datatypes, problems)
    compiler.check_datatypes()
    segments = {name: made for name, one in documents.segments.items() if (made := compiler.segment(one))}
    choices = _Events(documents, compiler, problems, whole=not source.problems).choices()
    problems.refuse()
    mark = hashlib.sha256(f"{documents.digest} {own!r}".encode()).hexdigest()
    return OutgoingMapping(mark, own, segments, choices)


class _Tables(Mapping[str, BackwardTable]):
    """The tables, each read backwards and checked when a rule first uses it: others may be readable forwards only."""

    def __init__(self, documents: Mapping[str, Document], problems: Problems) -> None:
        self._documents = documents
        self._problems = problems
        self._made: dict[str, BackwardTable] = {}

    def __getitem__(self, name: str) -> BackwardTable:
        if name not in self._made:
            document = self._documents[name]
            sound = check_table(document, self._problems)
            table: MappingTable = make_table(name, document.value, document.rows) if sound else make_table(name, {})
            self._made[name] = (
                check_backward(table, document, self._problems)
                if sound
                else BackwardTable(table, document.value.get(BACK) or {})
            )
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._documents)

    def __len__(self) -> int:
        return len(self._documents)


def _systems(events: Document, problems: Problems) -> dict[str, str]:
    found = events.value.get("systems") or {}
    if isinstance(found, dict) and all(isinstance(uri, str) for uri in found.values()):
        return found
    problems.add(events, ("systems",), f"found {kind_of(found)}", "expected lines such as SS: URI")
    return {}


class _Events:
    """The lines of the event table, checked and compiled."""

    def __init__(
        self, documents: OutgoingDocuments, compiler: OutgoingCompiler, problems: Problems, *, whole: bool
    ) -> None:
        self._document = documents.events
        self._segments = documents.segments
        self._compiler = compiler
        self._problems = problems
        # Whether all files could be read: one that could not is reported by itself.
        self._whole = whole

    def choices(self) -> dict[ChangeKind, tuple[EventChoice, ...]]:
        """Return the choices of each kind of change, in order."""
        value = self._document.value.get("events")
        if not isinstance(value, dict):
            self._add(("events",), "no events", "write them as patient-created: {event: A28, segments: [...]}")
            return {}
        kinds = {kind.value: kind for kind in ChangeKind}
        found: dict[ChangeKind, tuple[EventChoice, ...]] = {}
        for name, part in value.items():
            if name not in kinds:
                self._add(("events", name), f"unknown change {name!r}", nearest(name, kinds))
                continue
            lines = part if isinstance(part, list) else [part]
            paths = [("events", name, at) if isinstance(part, list) else ("events", name) for at in range(len(lines))]
            made = [self._choice(line, path) for line, path in zip(lines, paths, strict=True)]
            found[kinds[name]] = tuple(one for one in made if one is not None)
        return found

    def _choice(self, line: Any, path: tuple[str | int, ...]) -> EventChoice | None:
        if not isinstance(line, dict):
            self._add(path, f"found {kind_of(line)}", "expected {event: A28, segments: [EVN, PID]}")
            return None
        self._problems.keys(self._document, path, CHOICE_KEYS, line)
        scope = Scope(self._document, path)
        test = self._compiler.test(line, scope, "")
        if "nothing" in line:
            if line.keys() & {"event", "segments"}:
                self._add((*path, "nothing"), "nothing beside an event", "leave one of the two out")
            return EventChoice(test, "", (), str(line["nothing"]), scope)
        event, names = str(line.get("event") or ""), tuple(listed(line.get("segments")))
        if not known_trigger(event):
            self._add((*path, "event"), f"unknown event {event!r}", "expected a trigger event of ADT, such as A08")
            return None
        for name in names:
            if name not in self._segments and self._whole:
                self._add((*path, "segments"), f"no file of {name!r}", nearest(name, set(self._segments), GUIDE))
        self._check_structure(event, names, path)
        return EventChoice(test, event, names, "", scope)

    def _check_structure(self, event: str, names: tuple[str, ...], path: tuple[str | int, ...]) -> None:
        """Note segments that no version has there, and those that are missing or in another order."""
        known = {name for version in VERSIONS_CHECKED for name in _known(version, event, names)}
        for name in names:
            if name[0] != "Z" and name in self._segments and name not in known:
                found = f"{name} in {structure(VERSIONS_CHECKED[-1], event)}, which has no such segment"
                self._add((*path, "segments"), found, "leave it out")
        for one in _misplaced(DEFAULT_VERSION, event, names):
            if one.rule is ConformanceRule.SEGMENT_ORDER:
                self._add((*path, "segments"), f"{one.name} in the wrong place", "write the segments in HL7's order")
            elif one.rule is ConformanceRule.SEGMENT_MISSING:
                self._add((*path, "segments"), f"no {one.name}, which {event} requires", f"add {one.name}")

    def _add(self, path: tuple[str | int, ...], found: str, expected: str) -> None:
        self._problems.add(self._document, path, found, expected)


def _misplaced(version: str, event: str, names: tuple[str, ...]) -> Sequence[Any]:
    return misplaced(version, structure(version, event), ("MSH", *names))


def _known(version: str, event: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that the structure of an event has in a version."""
    strange = {one.name for one in _misplaced(version, event, names) if one.rule is ConformanceRule.SEGMENT_UNEXPECTED}
    return tuple(name for name in names if name not in strange)


class OutgoingMapping:
    """One outgoing mapping for one destination; pure: the same change gives the same message.

    `hash` names the files and the setting.
    """

    def __init__(
        self,
        mark: str,
        setting: OutgoingSetting,
        segments: Mapping[str, CompiledSegment],
        choices: Mapping[ChangeKind, tuple[EventChoice, ...]],
    ) -> None:
        self.hash = mark
        self.setting = setting
        self._segments = segments
        self._choices = choices
        self._writer = MessageWriter(setting)

    def message(self, change: FhirChange, control_id: str, now: datetime) -> AdtMessage | NothingToSend:
        """Return the message of a change; `now` is MSH-7.

        MappingError if the character set lacks a character of it (`unwritable-character PID-5`), or if a segment that
        the event requires cannot be made (`required-segment-missing PID`: the patient has no number).
        """
        return self._made(ChangeReading(change, self.setting.version, now), control_id, now)[0]

    def explained(self, change: FhirChange, control_id: str, now: datetime) -> OutgoingOutcome:
        """Return the message of a change with what each rule made of it; MappingError as for `message`."""
        reading = ChangeReading(change, self.setting.version, now, traced=True)
        made, scope = self._made(reading, control_id, now)
        place = scope.document.place(scope.path) if scope is not None else ("", 0)
        return OutgoingOutcome(made, tuple(reading.trace or ()), place)

    def _made(
        self, reading: ChangeReading, control_id: str, now: datetime
    ) -> tuple[AdtMessage | NothingToSend, Scope | None]:
        kind = reading.change.kind
        choice = next((one for one in self._choices.get(kind, ()) if one.test(None, reading)), None)
        if choice is None:
            return NothingToSend(NO_EVENT), None
        if not choice.event:
            return NothingToSend(choice.nothing), choice.scope
        reading.begin(choice.event)
        known = _known(self.setting.version, choice.event, choice.segments)
        made: list[tuple[str, Mapping[int, Sequence[Any]]]] = []
        for name in choice.segments:
            fields = self._segments[name].made(reading)
            if fields and not (name in known and self._writer.has(name)):
                reading.notes.append(f"{LEFT_OUT} {name}")
                continue
            made += [(name, one) for one in fields]
        self._check_whole(choice, known, [name for name, _ in made])
        header = self._writer.header(choice.event, control_id, now)
        raw = self._writer.write(header, made, reading.notes)
        notes = tuple(dict.fromkeys(reading.notes))
        return AdtMessage(raw, choice.event, control_id, notes, self.hash), choice.scope

    def _check_whole(self, choice: EventChoice, known: Sequence[str], made: Sequence[str]) -> None:
        """Raise MappingError if a segment that the event requires has nothing to say: no PID without a number."""
        for one in _misplaced(self.setting.version, choice.event, tuple(made)):
            if one.rule is ConformanceRule.SEGMENT_MISSING and one.name in known:
                raise MappingError(MISSING, one.name)
