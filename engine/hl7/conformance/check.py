"""The check: a message against its version of the standard, from its structure to its codes; and each deviation."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from engine.hl7.conformance.standard import USUAL, CodeTable, MessagePart, SegmentRule, Standard, kind_of, standard
from engine.hl7.escape import unescape
from engine.hl7.events import VERSIONS, StructurePart, grammar, structure
from engine.hl7.finding import ErrorCode, Finding, FindingSeverity
from engine.hl7.leaf import NULL_TEXT
from engine.hl7.message import Message
from engine.hl7.segment import HEADERS, Segment


class ConformanceRule(StrEnum):
    """What the standard asks for that a message does not keep."""

    SEGMENT_MISSING = "segment-missing"
    SEGMENT_UNEXPECTED = "segment-unexpected"
    SEGMENT_ORDER = "segment-order"
    SEGMENT_REPEATS = "segment-repeats"
    STRUCTURE_NAME = "structure-name"
    FIELD_MISSING = "field-missing"
    FIELD_REPEATS = "field-repeats"
    FIELD_UNKNOWN = "field-unknown"
    FIELD_WITHDRAWN = "field-withdrawn"
    COMPONENT_MISSING = "component-missing"
    COMPONENT_UNKNOWN = "component-unknown"
    TOO_LONG = "too-long"
    DATA_TYPE = "data-type"
    TABLE_VALUE = "table-value"


CODES: Final = {
    ConformanceRule.SEGMENT_MISSING: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.SEGMENT_UNEXPECTED: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.SEGMENT_ORDER: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.SEGMENT_REPEATS: ErrorCode.SEGMENT_SEQUENCE,
    ConformanceRule.STRUCTURE_NAME: ErrorCode.TABLE_VALUE,
    ConformanceRule.FIELD_MISSING: ErrorCode.REQUIRED_MISSING,
    ConformanceRule.FIELD_REPEATS: ErrorCode.DATA_TYPE,
    ConformanceRule.FIELD_UNKNOWN: ErrorCode.DATA_TYPE,
    ConformanceRule.FIELD_WITHDRAWN: ErrorCode.DATA_TYPE,
    ConformanceRule.COMPONENT_MISSING: ErrorCode.REQUIRED_MISSING,
    ConformanceRule.COMPONENT_UNKNOWN: ErrorCode.DATA_TYPE,
    ConformanceRule.TOO_LONG: ErrorCode.DATA_TYPE,
    ConformanceRule.DATA_TYPE: ErrorCode.DATA_TYPE,
    ConformanceRule.TABLE_VALUE: ErrorCode.TABLE_VALUE,
}
"""HL7 table 0357: what ERR-3 says of each."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One place where a message is not what the standard says.

    `place` is a path (`PID-3(2).4.1`, `NK1(2)-3`), `name` the standard's name of it, `expected` what the standard has
    there and `found` of what kind the message's is. A warning is what the standard lets a sender do beyond it, or
    leaves to the sites: later fields and components, withdrawn ones, codes of user-defined tables.
    """

    place: str
    rule: ConformanceRule
    name: str
    expected: str
    found: str
    severity: FindingSeverity = FindingSeverity.ERROR

    def finding(self) -> Finding:
        """Return it as ERR tells it."""
        text = f"{self.name}: expected {self.expected}, found {self.found}"
        return Finding(CODES[self.rule], f"conformance-{self.rule}", (self.place,), text, self.severity)


KEPT: Final = 4096


class Misplaced(NamedTuple):
    """A segment that is not where it should be: its name and which of that name it is; 0 where it is missing."""

    rule: ConformanceRule
    name: str
    ordinal: int


@lru_cache(maxsize=KEPT)
def misplaced(version: str, structure: str, names: tuple[str, ...]) -> tuple[Misplaced, ...]:
    """Compare the names of a message's segments with a structure; Z segments may stand anywhere.

    A segment in the wrong place is reported as that, and not as missing too.
    """
    parts = grammar(version, structure)
    if not parts:
        return ()
    known = frozenset(_names(parts))
    places = [(name, names[: at + 1].count(name)) for at, name in enumerate(names) if not name.startswith("Z")]
    found = [Misplaced(ConformanceRule.SEGMENT_UNEXPECTED, *place) for place in places if place[0] not in known]
    left = [place for place in places if place[0] in known]
    while True:
        walk = _Walk([name for name, _ in left])
        end = walk.take(parts, 0)
        if end == len(left):
            break
        name, ordinal = left.pop(end)
        repeats = end > 0 and left[end - 1][0] == name
        found.append(
            Misplaced(ConformanceRule.SEGMENT_REPEATS if repeats else ConformanceRule.SEGMENT_ORDER, name, ordinal)
        )
    stray = {one.name for one in found}
    missing = [Misplaced(ConformanceRule.SEGMENT_MISSING, name, 0) for name in walk.missing if name not in stray]
    return (*missing, *found)


class _Walk:
    """One walk along a structure, as far as the names go."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.missing: list[str] = []

    def take(self, parts: Sequence[StructurePart], at: int) -> int:
        """Take as many names as the parts have room for and return the position of the walk."""
        for part in parts:
            at = self._group(part, at) if part.parts else self._segment(part, at)
        return at

    def _segment(self, part: StructurePart, at: int) -> int:
        end = at
        while self._is(end, part.name) and (end == at or part.repeating):
            end += 1
        if end == at and part.required:
            self.missing.append(part.name)
        return end

    def _group(self, part: StructurePart, at: int) -> int:
        begins = _beginnings(part.parts)
        end = at
        while end < len(self._names) and self._names[end] in begins and (end == at or part.repeating):
            end = self.take(part.parts, end)
        if end == at and part.required:
            self.missing += _least(part.parts)
        return end

    def _is(self, at: int, name: str) -> bool:
        return at < len(self._names) and self._names[at] == name


def _names(parts: Sequence[StructurePart]) -> list[str]:
    return [name for part in parts for name in (_names(part.parts) if part.parts else [part.name])]


def _beginnings(parts: Sequence[StructurePart]) -> frozenset[str]:
    """Return the names that a group may begin with."""
    found: set[str] = set()
    for part in parts:
        found |= _beginnings(part.parts) if part.parts else {part.name}
        if part.required:
            break
    return frozenset(found)


def _least(parts: Sequence[StructurePart]) -> list[str]:
    """Return the segments that a required group has at the least."""
    return [name for part in parts if part.required for name in (_least(part.parts) if part.parts else [part.name])]


VARIES: Final = "VARIES"
NAMELESS: Final = frozenset(VERSIONS[: VERSIONS.index("2.4")])
"""Versions in which MSH-9.3 is not there, or is not yet what tells the structure."""

STRUCTURE_WORDS: Final = {
    ConformanceRule.SEGMENT_MISSING: ("the segment", "nothing"),
    ConformanceRule.SEGMENT_UNEXPECTED: ("no such segment", "the segment"),
    ConformanceRule.SEGMENT_ORDER: ("the segment elsewhere", "it here"),
    ConformanceRule.SEGMENT_REPEATS: ("the segment once", "it again"),
}


def check(message: Message, version: str = "2.5.1") -> tuple[Deviation, ...]:
    """Return how a message differs from its version of the standard, in the order of its segments; () where nowhere.

    `version` holds where MSH-12 is empty. Whatever a message holds, nothing is raised: of a version that is none,
    or segments that no table has, nothing can be said. Z segments are the sites' own.
    """
    spoken = message.version or version
    known = standard(spoken)
    if known is None:
        return ()
    seen: Counter[str] = Counter()
    found = list(_structure(message, spoken))
    marks = _Marks(message)
    for segment in message.segments:
        seen[segment.name] += 1
        rule = known.segment(segment.name)
        if rule is not None:
            found += marks.segment(known, rule, segment, seen[segment.name])
    return tuple(found)


def _structure(message: Message, version: str) -> Iterator[Deviation]:
    if message.message_type != "ADT":
        return
    name = structure(version, message.trigger)
    said = message.leaf("MSH", 9, 3)
    if version not in NAMELESS and isinstance(said, str) and name not in {"", said}:
        yield Deviation(
            "MSH-9.3", ConformanceRule.STRUCTURE_NAME, "Message structure", f"{name} for this event", "another name"
        )
    for one in misplaced(version, name, tuple([segment.name for segment in message.segments])):
        yield _misplaced(one, name)


def _misplaced(one: Misplaced, name: str) -> Deviation:
    place = one.name if one.ordinal < 2 else f"{one.name}({one.ordinal})"
    expected, found = STRUCTURE_WORDS[one.rule]
    return Deviation(place, one.rule, f"{one.name} in {name}", expected, found)


class _Marks:
    """The delimiters of one message, and the check of what they part; an undeclared one parts nothing."""

    __slots__ = ("_charset", "_component", "_delimiters", "_escape", "_repetition", "_subcomponent", "_usual")

    def __init__(self, message: Message) -> None:
        delimiters = message.delimiters
        self._delimiters = delimiters
        self._charset = message.charset
        self._component = delimiters.component or "\0"
        self._repetition = delimiters.repetition or "\0"
        self._subcomponent = delimiters.subcomponent or "\0"
        self._escape = delimiters.escape or "\0"
        self._usual = delimiters._replace(truncation="") == USUAL

    def segment(self, known: Standard, rule: SegmentRule, segment: Segment, ordinal: int) -> list[Deviation]:
        """Check one segment; `ordinal` counts those of its name."""
        name = segment.name if ordinal < 2 else f"{segment.name}({ordinal})"
        found: list[Deviation] = []
        texts, fields = self._texts(segment), rule.fields
        for part in rule.required:
            if part.number >= len(texts) or not texts[part.number]:
                found.append(
                    Deviation(f"{name}-{part.number}", ConformanceRule.FIELD_MISSING, part.name, "a value", "nothing")
                )
        for number, text in enumerate(texts):
            if not text or number == 0 or text == NULL_TEXT:
                continue
            field = fields[number] if number < len(fields) else None
            if field is None:
                found.append(_no_field(segment.name, f"{name}-{number}", text, len(fields) - 1))
            elif not self._surely(known, rule, field, text):
                value_type = texts[2] if field.type == VARIES and segment.name == "OBX" else ""
                self._field(text, known.value_type(value_type) or field, f"{name}-{number}", found)
        return found

    def _surely(self, known: Standard, rule: SegmentRule, field: MessagePart, text: str) -> bool:
        """Tell whether a field conforms at one look."""
        if not self._usual:
            return False
        if field.number not in rule.shapes:
            rule.shapes[field.number] = known.shape(field)
        shape = rule.shapes[field.number]
        return shape is not None and shape.fullmatch(text) is not None

    def _texts(self, segment: Segment) -> list[str]:
        """Return the fields by number; of a header those that declare the delimiters are left out."""
        texts = segment.text.split(self._delimiters.field)
        return ["", "", "", *texts[2:]] if segment.name in HEADERS else texts

    def _field(self, text: str, part: MessagePart, place: str, found: list[Deviation]) -> None:
        if part.type == VARIES:
            return
        if part.most == 0:
            withdrawn = "nothing: the field is withdrawn"
            found.append(
                Deviation(
                    place, ConformanceRule.FIELD_WITHDRAWN, part.name, withdrawn, kind_of(text), FindingSeverity.WARNING
                )
            )
            return
        if self._repetition not in text:
            self._repetition_of(text, part, place, found)
            return
        repetitions = text.split(self._repetition)
        if 0 < part.most < len(repetitions):
            expected = f"at most {part.most}" if part.most > 1 else "one value"
            found.append(
                Deviation(place, ConformanceRule.FIELD_REPEATS, part.name, expected, f"{len(repetitions)} repetitions")
            )
        for at, repetition in enumerate(repetitions, 1):
            if repetition and repetition != NULL_TEXT:
                self._repetition_of(repetition, part, place if at == 1 else f"{place}({at})", found)

    def _repetition_of(self, text: str, part: MessagePart, place: str, found: list[Deviation]) -> None:
        components = text.split(self._component) if self._component in text else [text]
        if not part.parts:
            self._beyond(components, 1, part.name, place, found)
            self._leaf(components[0], part, place, part.name, found)
            return
        self._beyond(components, len(part.parts), part.name, place, found)
        for component, below in zip(components, part.parts, strict=False):
            if component and component != NULL_TEXT:
                self._components(component, below, f"{place}.{below.number}", f"{part.name}, {below.name}", found)
        for below in part.parts:
            if below.required and (below.number > len(components) or not components[below.number - 1]):
                name = f"{part.name}, {below.name}"
                found.append(
                    Deviation(f"{place}.{below.number}", ConformanceRule.COMPONENT_MISSING, name, "a value", "nothing")
                )
        if part.table is not None and part.coded:
            self._coded(components, part, place, found)

    def _components(self, text: str, part: MessagePart, place: str, name: str, found: list[Deviation]) -> None:
        """Check one component, with its subcomponents where it is a composite."""
        pieces = text.split(self._subcomponent) if self._subcomponent in text else [text]
        if not part.parts:
            self._beyond(pieces, 1, name, place, found)
            self._leaf(pieces[0], part, place, name, found)
            return
        self._beyond(pieces, len(part.parts), name, place, found)
        for piece, below in zip(pieces, part.parts, strict=False):
            at = place if len(pieces) == 1 else f"{place}.{below.number}"
            self._leaf(piece, below, at, f"{name}, {below.name}", found)

    def _beyond(self, pieces: list[str], room: int, name: str, place: str, found: list[Deviation]) -> None:
        """Note parts that the version does not have; later versions may, so that it is a warning."""
        if len(pieces) > room and any(pieces[room:]):
            expected = f"{room} parts at most" if room > 1 else "one part"
            found.append(
                Deviation(
                    place, ConformanceRule.COMPONENT_UNKNOWN, name, expected, f"{len(pieces)}", FindingSeverity.WARNING
                )
            )

    def _leaf(self, text: str, part: MessagePart, place: str, name: str, found: list[Deviation]) -> None:
        kind = part.primitive
        if not text or text == NULL_TEXT or kind is None:
            return
        if self._escape in text:
            text = unescape(text, self._delimiters, self._charset)
        if kind.fits is not None and not kind.fits(text):
            found.append(Deviation(place, ConformanceRule.DATA_TYPE, name, f"{kind.kind} ({kind.name})", kind_of(text)))
        elif kind.longest and len(text) > kind.longest:
            expected = f"at most {kind.longest} characters ({kind.name})"
            found.append(Deviation(place, ConformanceRule.TOO_LONG, name, expected, kind_of(text)))
        elif part.table is not None and not part.table.has(text):
            found.append(_no_code(place, name, part.table))

    def _coded(self, components: list[str], part: MessagePart, place: str, found: list[Deviation]) -> None:
        """Check the first code of a coded element, unless it says that it is of another coding system."""
        code, table = components[0], part.table
        if table is None or not code or table.has(code) or code == NULL_TEXT or self._escape in code:
            return
        system = components[2] if len(components) > 2 else ""
        if system in {"", table.system}:
            found.append(_no_code(f"{place}.1", part.name, table))


def _no_field(segment: str, place: str, text: str, last: int) -> Deviation:
    expected = f"a field that this version has, of {last} at most"
    return Deviation(place, ConformanceRule.FIELD_UNKNOWN, segment, expected, kind_of(text), FindingSeverity.WARNING)


def _no_code(place: str, name: str, table: CodeTable) -> Deviation:
    severity = FindingSeverity.WARNING if table.open else FindingSeverity.ERROR
    return Deviation(place, ConformanceRule.TABLE_VALUE, name, str(table), "another code", severity)
