"""The fields and components that a mapping reads, from its paths; and the unread ones of a message."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.hl7.message import Message, Segment
from engine.mapping.authoring.trace import Trace
from engine.mapping.authoring.traced import TracedEach, TracedPath
from engine.mapping.files.document import Documents
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import segments
from engine.mapping.language.expression import RepetitionPath, SegmentPath
from engine.mapping.language.function_context import Takes
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.identifier import MERGED
from engine.mapping.resource.referred import FROM, KINDS, NUMBER

Place = tuple[str, int]
EVERYTHING: Final = 0
PATIENT: Final = "Patient"
MORE: Final = ("identity", NUMBER)
# Fields that the engine itself reads: the time of the event, the visit, one of several births.
OWN: Final[tuple[Place, ...]] = (("EVN", 2), ("EVN", 6), ("PV1", 19), ("PID", 24))
# Fields without content of their own: MSH is about the message itself, EVN-1 repeats MSH-9.2.
SILENT: Final = frozenset({("EVN", 1)})


class IgnoredField(NamedTuple):
    """A valued field or component that no rule reads: its path (`PID-30`, `PID-5.9`) and the field's standard name."""

    path: str
    name: str


class Survey:
    """The reads of a mapping: components by field, EVERYTHING for a whole field."""

    def __init__(self, trace: Trace, documents: Documents) -> None:
        self._types: dict[str, set[int]] = {}
        self._read_types(trace, documents)
        self.read: dict[Place, set[int]] = {place: {1} for place in OWN}
        self._read_identities(trace, documents)
        idle = _idle(documents)
        for read in trace.reads:
            if isinstance(read.head, SegmentPath) and id(read.scope.document) not in idle:
                self._add((read.head.segment, read.head.field), self._components(read))
        for each in trace.eaches:
            if id(each.scope.document) not in idle:
                self._walked(each, trace)

    def unread(self, message: Message) -> Iterator[IgnoredField]:
        """Yield each valued field, or component of one, that is not read; each once for a message."""
        seen: set[str] = set()
        for segment in message.segments:
            if segment.name == "MSH":
                continue
            for number in range(1, segment.fields() + 1):
                for path in self._unread(segment, number):
                    if path not in seen:
                        seen.add(path)
                        yield IgnoredField(path, name_of(path))

    def _unread(self, segment: Segment, number: int) -> Iterator[str]:
        name, place = f"{segment.name}-{number}", (segment.name, number)
        if not segment.field(number) or place in SILENT or _is_set_id(place):
            return
        read = self.read.get(place)
        if read is None:
            yield name
        elif EVERYTHING not in read:
            parts = {
                component
                for repetition in segment.repetitions(number)
                for component in range(1, repetition.components() + 1)
                if component not in read and repetition.leaf(component) is not None
            }
            yield from (f"{name}.{component}" for component in sorted(parts))

    def _add(self, place: Place, components: set[int]) -> None:
        self.read.setdefault(place, set()).update(components)

    def _components(self, read: TracedPath) -> set[int]:
        """Return the components that a path reads; for a whole repetition those that its function reads."""
        if read.head.component:
            return {read.head.component}
        if read.takes is Takes.TEXT:
            return {1}
        if read.function in self._types:
            return self._types[read.function]
        return set(FUNCTIONS[read.function].reads if read.function in FUNCTIONS else ()) or {EVERYTHING}

    def _read_types(self, trace: Trace, documents: Documents) -> None:
        named = [*documents.datatypes.items(), *(item for item in documents.resources.items() if FROM in item[1].value)]
        files = {id(document): name for name, document in named}
        for read in trace.reads:
            name = files.get(id(read.scope.document))
            if name and isinstance(read.head, RepetitionPath):
                path = read.scope.path
                kind = str(path[1]) if path[:1] == (KINDS,) else name
                self._types.setdefault(kind, set()).update(self._components(read))

    def _read_identities(self, trace: Trace, documents: Documents) -> None:
        """Add the reads of fields that files name outside of expressions: identities, and marks of events.

        The file defines the type of a resource's number, not the message.
        """
        events, idle = documents.events.value, _idle(documents)
        identity = {"from": "PID-3", **(events.get("identity") or {})}
        for place in _named({**events, "identity": identity}):
            self._add(place, {1, 4, 5, 8})
        for document in documents.resources.values():
            if id(document) in idle:
                continue
            own = [read for read in trace.reads if read.scope.document is document and _under(read.scope.path, MORE)]
            more = {component for read in own for component in self._components(read)}
            for place in _named(document.value.get("identity")):
                self._add(place, {1, 4, 5, *more})

    def _walked(self, each: TracedEach, trace: Trace) -> None:
        """Add the reads of each repetition of a field: by a data type, or by the paths of the entry itself."""
        match = FIELD.fullmatch(each.source)
        if match is None:
            return
        place = (match[1], int(match[2]))
        self._add(place, self._types.get(each.as_, set()))
        for read in trace.reads:
            inside = read.scope.document is each.scope.document and _under(read.scope.path, each.scope.path)
            if inside and isinstance(read.head, RepetitionPath):
                self._add(place, self._components(read))


def name_of(path: str) -> str:
    """Return the standard's name of a path's field; empty if it has none."""
    match = FIELD.fullmatch(path)
    found = segments().get(match[1], {}).get(int(match[2])) if match else None
    return found.name if found else ""


def identities_of(documents: Documents, field: str) -> Iterator[tuple[str, int, str]]:
    """Yield file, line and text of each place that names a field, or its counterpart in MRG, as an identity."""
    for document in (documents.events, *documents.resources.values()):
        for path, text in _places(document.value.get("identity"), ("identity",)):
            if field in {text, MERGED.get(text)}:
                yield (*document.place(path), f"identity {text}")


def _places(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _places(part, (*path, key))


def _named(value: Any) -> Iterator[Place]:
    """Yield the fields that an authored value names, with their counterparts in MRG."""
    for text in _texts(value):
        for name in (text, MERGED.get(text, "")):
            if match := FIELD.fullmatch(name):
                yield match[1], int(match[2])


def _idle(documents: Documents) -> set[int]:
    """Return the ids of the resource files that the event table does not send, without those that others refer to."""
    sent = documents.events.value.get("resources") or list(documents.resources)
    return {
        id(one) for name, one in documents.resources.items() if name not in {*sent, PATIENT} and FROM not in one.value
    }


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _texts(key)
        yield from _texts(part)


def _is_set_id(place: Place) -> bool:
    found = segments().get(place[0], {}).get(place[1])
    return found is not None and found.type_ == "SI"


def _under(path: tuple[str | int, ...], above: tuple[str | int, ...]) -> bool:
    return path[: len(above)] == above
