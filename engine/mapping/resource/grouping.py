"""Segments under another one: the OBX of an OBR, with its ORC before and the notes after each.

`OBX under OBR` in a resource file: each OBX up to the next OBR, with the segments that follow and belong to it
(`with`). The OBR has its own: those that follow it or any OBX and belong to no OBX. Its leading segment (`led_by`) is
right before it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from engine.hl7.message import Segment
from engine.mapping.files.reference import listed
from engine.mapping.language.reading import MessageReading

UNDER: Final = " under "
TEXTS: Final = {"NTE": 3}

Held = dict[str, list[Segment]]


class ObservationGroup(NamedTuple):
    """One OBR: its number in the message, its own segments by name, and each OBX with those that are the OBX's."""

    number: int
    own: Held
    under: list[tuple[Segment, Held]]

    def everything(self) -> Held:
        """Return the segments of the group by name, without those that belong to a segment under it."""
        held = {name: list(some) for name, some in self.own.items()}
        for segment, _ in self.under:
            held.setdefault(segment.name, []).append(segment)
        return held


class SegmentGrouping(NamedTuple):
    """The segments under `parent`, each with those that follow and belong to it; `led_by` comes before."""

    parent: str
    led_by: frozenset[str]
    own: frozenset[str]
    under: Mapping[str, frozenset[str]]

    @property
    def names(self) -> frozenset[str]:
        """The names of all segments of a group."""
        return frozenset({self.parent}).union(self.led_by, self.own, self.under, *self.under.values())

    def groups(self, reading: MessageReading) -> Iterator[ObservationGroup]:
        """Yield the groups of a reading's segments, in order."""
        known = {id(one) for name in self.names for one in reading.all.get(name, ())}
        leading: Held = {}
        group: ObservationGroup | None = None
        number = 0
        for segment in reading.message.segments:
            name = segment.name
            number += name == self.parent
            if id(segment) not in known:
                continue
            if name in self.led_by:
                leading = leading | {name: [segment]}
            elif name == self.parent:
                if group:
                    yield group
                group, leading = ObservationGroup(number, {**leading, name: [segment]}, []), {}
            elif group is not None:
                self._add(group, segment)
        if group:
            yield group

    def _add(self, group: ObservationGroup, segment: Segment) -> None:
        """Add a segment to a group: under the parent, to the last one under it, or to the group itself."""
        name = segment.name
        if name in self.under:
            group.under.append((segment, {}))
        elif group.under and name in self.under[group.under[-1][0].name]:
            group.under[-1][1].setdefault(name, []).append(segment)
        elif name in self.own:
            group.own.setdefault(name, []).append(segment)


def groupings(authored: Iterable[Any]) -> dict[str, SegmentGrouping]:
    """Return the groups in the `segments` of resource files, by their parent segment."""
    parts = [item for one in authored if isinstance(one, dict) for item in one.items() if isinstance(item[1], dict)]
    parents = {named.partition(UNDER)[2] or named for named, _ in parts}
    return {parent: _grouping(parent, parts) for parent in parents}


def _grouping(parent: str, parts: Iterable[tuple[str, dict[str, Any]]]) -> SegmentGrouping:
    own: set[str] = set()
    led_by: set[str] = set()
    under: dict[str, frozenset[str]] = {}
    for named, value in parts:
        segment, _, above = named.partition(UNDER)
        belonging = frozenset(listed(value.get("with")))
        if named == parent:
            own |= belonging
            led_by |= set(listed(value.get("led_by")))
        elif above == parent:
            under[segment] = under.get(segment, frozenset()) | belonging
    return SegmentGrouping(parent, frozenset(led_by), frozenset(own), under)


def not_under(reading: MessageReading, name: str, parents: frozenset[str]) -> list[Segment]:
    """Return the segments of a name before any of the parents (the OBX of the patient, not those of an OBR)."""
    known = {id(one) for one in reading.all.get(name, ())}
    found: list[Segment] = []
    below = False
    for segment in reading.message.segments:
        below = (below or segment.name in parents) and segment.name != "PID"
        if not below and id(segment) in known:
            found.append(segment)
    return found


def without(reading: MessageReading, names: Iterable[str]) -> MessageReading:
    """Return a reading without the segments of certain names."""
    gone = frozenset(names)
    own = reading.apart({name: one for name, one in reading.first.items() if name not in gone})
    own.all = {name: some for name, some in reading.all.items() if name not in gone}
    return own


def at_hand(reading: MessageReading, held: Held) -> MessageReading:
    """Return a reading with more segments; several notes (NTE) on one segment become one, with the lines of all."""
    own = reading.apart({**reading.first, **{name: _first(some, reading) for name, some in held.items()}})
    own.all = {**reading.all, **held}
    return own


def _first(segments: list[Segment], reading: MessageReading) -> Segment:
    """Return the first segment; for notes one with the text of all."""
    first = segments[0]
    number = TEXTS.get(first.name)
    if number is None or len(segments) == 1:
        return first
    texts = [text for segment in segments if (text := segment.field(number))]
    cut = reading.message.dialect.delimiters.field
    fields = [*first.text.split(cut), *[""] * number][: number + 1]
    fields[number] = reading.repeat.join(texts)
    return Segment(first.name, cut.join(fields), first.position, reading.message.dialect)
