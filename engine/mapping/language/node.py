"""Nodes: the parts of a compiled template, each of which writes itself out as Python source.

Only the shape of a template becomes source. Names, words, codes and functions of a mapping are bound to it as values,
so that no authored text is ever run. `{family: XPN.1, use: XPN.7 | code(name-type), needs: [family]}` becomes

    def bound(NULL, c1, c2, c3, c4):          # 'family', the function, 'use', {'family'}
        def made(scope, reading):
            filled = scope.filled
            first = scope.first
            v2 = {}
            v3 = None
            if filled & 2:                    # XPN.1 holds something
                v4 = first[0]
                if v4 is NULL:
                    v3 = NULL
                elif v4 is not None:
                    v2[c1] = v4
            ...                               # the same for XPN.7, with v4 = c2(v4, reading)
            v1 = v3
            if v2 and not c4.isdisjoint(v2):
                v1 = v2
            return v1
        return made

A `mask` has the bits of the components, or fields, at hand that a node can use; if none of them is filled, the node is
skipped. Words and paths are here; `composite.py` has the nodes that are made of them.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from engine.hl7.segment import BITS
from engine.mapping.language.reading import EVERYTHING, MessageReading
from engine.mapping.language.source import GeneratedSource, SegmentNames

Step = Callable[[Any, MessageReading], Any]
"""Takes what is at hand and the reading; returns None where nothing is said, NULL for a deletion, else a value."""
Test = Callable[[Any, MessageReading], bool]
Apply = Callable[[Any, MessageReading], Any]


@dataclass(frozen=True, slots=True)
class PrecomputedFunction:
    """A function with precomputed results for some values; generated code looks there before it calls."""

    answers: Mapping[str, Any]
    otherwise: Apply

    def __call__(self, value: Any, reading: MessageReading) -> Any:
        """Return the result for a value."""
        return self.answers[value] if value in self.answers else self.otherwise(value, reading)


class ValueNode(Protocol):
    """A way to a value."""

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the value; `mask`: one of its bits is known to be filled."""


def function_of(node: ValueNode) -> Step:
    """Return the function of a node."""
    if isinstance(node, Called):
        return node.step
    source = GeneratedSource()
    value = source.variable()
    node.write(source, value, EVERYTHING)
    source.line(f"return {value}")
    made: Step = source.function()
    return made


class Word(NamedTuple):
    """A literal value."""

    value: Any

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the value."""
        source.line(f"{to} = {source.name(self.value)}")


class Called(NamedTuple):
    """The result of another function of the part at hand: a data type, a resource file."""

    step: Step

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the function's result."""
        source.line(f"{to} = {source.name(self.step)}(scope, reading)")


class ComponentNode(NamedTuple):
    """A component of the repetition at hand."""

    number: int

    def write(self, source: GeneratedSource, to: str, mask: int) -> None:
        """Write what sets a variable to the component, as it was cut."""
        source.line(f"{to} = {source.cell(self.number, mask)}")


class SubcomponentNode(NamedTuple):
    """A subcomponent of the repetition at hand."""

    component: int
    subcomponent: int

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the leaf."""
        source.line(f"{to} = scope.leaf({self.component}, {self.subcomponent})")


class WholeRepetition(NamedTuple):
    """The repetition at hand as cells, or (not 0) a component of it as the cells of a data type of its own."""

    component: int

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the cells."""
        if not self.component:
            source.line(f"{to} = scope")
            return
        source.line(f"{to} = scope.subcomponents({self.component})")
        _held(source, to, "None")


class Text(NamedTuple):
    """A leaf of a field, without blanks around it: of the segment at hand, or of the first of its name.

    `place` names the field, and is noted if the field is filled (empty, in a condition: never); a repetition of the
    field is noted, too, unless `mere` (a condition).
    """

    segment: str
    at_hand: bool
    place: str
    field: int
    component: int
    subcomponent: int
    repetition: int
    mere: bool = False

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the leaf."""
        with field_source(source, to, *self[:4]) as found:
            segment, texts, plain = found.segment, found.texts, found.plain
            text = f"{texts}[{self.field}]"
            if self.subcomponent == self.repetition == 1:
                source.line(f"{to} = {text}")
                with source.under(f"if {plain} and reading.repeat not in {to}:"):
                    self._cut(source, to)
                otherwise = "else:"
            else:
                otherwise = ""
            with source.under(otherwise):
                if not self.mere:
                    with source.under(f"if reading.repeat in {text}:"):
                        source.line(f"reading.once.append({source.name(self.place)})")
                source.line(f"{to} = {segment}.leaf({', '.join(map(str, self[3:7]))})")
                with source.under(f"if {to}:"):
                    source.line(f"{to} = {to}.strip() or None")

    def _cut(self, source: GeneratedSource, to: str) -> None:
        """Write what cuts the component out of a plain text."""
        if self.component == 1:
            source.line(f"{to} = {to}.partition(reading.component)[0].strip() or None")
            return
        source.line(f"{to} = {to}.split(reading.component, {self.component})")
        cut = f"{to}[{self.component - 1}].strip() or None"
        source.line(f"{to} = {cut} if len({to}) >= {self.component} else None")


class RepetitionNode(NamedTuple):
    """The cells of one repetition of a field, or (not 0) of its component: the one of a number, else the first.

    `where`: the first whose component of that number equals a text. A repeating field is noted if none is chosen.
    """

    segment: str
    at_hand: bool
    place: str
    field: int
    component: int
    repetition: int
    where: int
    equals: str

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the cells."""
        every, number = source.variable(), max(self.repetition, 1)
        with field_source(source, to, *self[:4]) as (segment, *__):
            source.line(f"{every} = {segment}.cells({self.field})")
            if self.where:
                pairs = f"zip({segment}.repetitions({self.field}), {every})"
                fits = f"one.leaf({self.where}) == {source.name(self.equals)}"
                source.line(f"{to} = next((cells for one, cells in {pairs} if {fits}), None)")
            else:
                source.line(f"{to} = {every}[{number - 1}] if len({every}) >= {number} else None")
            if not self.where and not self.repetition:
                with source.under(f"if len({every}) > 1:"):
                    source.line(f"reading.once.append({source.name(self.place)})")
            with source.under(f"if {to} is not None:"):
                if self.component:
                    source.line(f"{to} = {to}.subcomponents({self.component})")
                _held(source, to, "None" if self.component else to)


class Every(NamedTuple):
    """The cells of every repetition of a field."""

    segment: str
    at_hand: bool
    place: str
    field: int

    def write(self, source: GeneratedSource, to: str, _: int) -> None:
        """Write what sets a variable to the tuple of cells."""
        with field_source(source, to, *self[:4]) as (segment, *__):
            source.line(f"{to} = {segment}.cells({self.field})")
            with source.under(f"if len({to}) > 1:"):
                source.line(f"reading.whole.append({source.name(self.place)})")
            with source.under(f"if all([NULL in one.first and not any(one.first) for one in {to}]):"):
                source.line(f"{to} = NULL")


@contextmanager
def field_source(
    source: GeneratedSource, to: str, segment: str, at_hand: bool, place: str, field: int
) -> Iterator[SegmentNames]:
    """Write what finds a field and notes its place, if any; the code for a filled field goes into this context.

    Yields the name of its segment.
    """
    source.line(f"{to} = None")
    found = source.at_hand() if at_hand else source.segment(segment)
    with source.under(f"if {found.filled} & {BITS[field]}:"):
        if place:
            source.line(f"reading.place = {source.name(place)}")
        yield found


def field_filled(source: GeneratedSource, segment: str, at_hand: bool, field: int) -> str:
    """Return a test that a field holds something: of the segment at hand, or of the first of its name."""
    return source.filled(BITS[field]) if at_hand else f"{source.segment(segment).filled} & {BITS[field]}"


def _held(source: GeneratedSource, to: str, empty: str) -> None:
    """Write what replaces cells without a value by NULL if one of them is deleted, or else by nothing."""
    with source.under(f"if not any({to}.first):"):
        source.line(f"{to} = NULL if NULL in {to}.first else {empty}")
