"""What an expression reads from: the segments that speak of one patient, and the cells of one repetition."""

from collections.abc import Hashable, Iterable, Sequence
from datetime import tzinfo
from itertools import compress
from typing import Any, Final

from engine.fhir.plan import Keep
from engine.hl7.leaf import NULL, Leaf, Null
from engine.hl7.message import Message, Repetition, Segment
from engine.hl7.segment import BITS

NESTED: Final = 1
EVERYTHING: Final = -1
COMPONENTS: Final = BITS[1:]


class Cells:
    """One repetition, split: `first` holds each component's first subcomponent ('' absent, NULL deleted).

    `filled` has the bit of each component that holds something, and NESTED where there are subcomponents: who needs
    what is not there need not be asked.
    """

    __slots__ = ("filled", "first", "repetition")

    def __init__(self, first: Sequence[str | Null], filled: int, repetition: Repetition | None = None) -> None:
        self.first = first
        self.filled = filled
        self.repetition = repetition

    def leaf(self, component: int, subcomponent: int) -> Leaf:
        """Return a subcomponent; None where it is absent."""
        if subcomponent == 1:
            value = self.first[component - 1] if component <= len(self.first) else ""
            return None if value == "" else value
        if self.repetition is None:
            return None
        value = _clean(self.repetition.leaf(component, subcomponent))
        return None if value == "" else value

    def subcomponents(self, component: int) -> "Cells":
        """Return a component as the cells of a data type of its own."""
        if self.repetition is None:
            return _cells(self.first[component - 1 : component])
        return _cells([_clean(leaf) for leaf in self.repetition.subcomponents(component)])


class Splitter:
    """Splits the repetitions of one message."""

    __slots__ = ("_marks",)

    def __init__(self, message: Message) -> None:
        self._marks = message.dialect.cuts

    def every(self, segment: Segment, number: int) -> list[Cells]:
        """Return the cells of every repetition of a field that is valued."""
        text = segment.field(number)
        repetition, component, subcomponent, escape = self._marks
        if escape in text or subcomponent in text:
            return [self.cells(one) for one in segment.repetitions(number)]
        return [_plain(one, component) for one in text.split(repetition)]

    def cells(self, repetition: Repetition) -> Cells:
        """Return the cells of a repetition: split once, unescaped, without blanks at the ends."""
        _, component, subcomponent, escape = self._marks
        if escape not in repetition.text and subcomponent not in repetition.text:
            return _plain(repetition.text, component)
        count = repetition.components()
        return _cells([_clean(repetition.leaf(number)) for number in range(1, count + 1)], repetition)


def _plain(text: str, component: str) -> Cells:
    parts = text.split(component)
    if " " in text:
        parts = [part.strip() for part in parts]
    filled = sum(compress(COMPONENTS, parts))
    return Cells([NULL if part == '""' else part for part in parts] if '""' in text else parts, filled)


def _cells(first: Sequence[str | Null], repetition: Repetition | None = None) -> Cells:
    """Return cells that were read one by one; those of a whole `repetition` have subcomponents."""
    filled = sum(compress(COMPONENTS, [cell != "" for cell in first]))
    return Cells(first, filled | NESTED if repetition is not None else filled, repetition)


class Reading:
    """One pass over the segments that speak of one patient; gathers warnings (a code and a place, never a value).

    `offset` is MSH-7's, for timestamps without one of their own; `today` the day of the event as YYYYMMDD, or empty.
    `made`: the resources that what was read refers to, by local name, each after those that it refers to itself.
    """

    __slots__ = ("all", "cells", "event", "every", "first", "made", "message", "offset", "place", "today", "warnings")

    def __init__(self, message: Message, segments: Iterable[Segment], offset: tzinfo | None, today: str) -> None:
        self.message = message
        splitter = Splitter(message)
        self.cells = splitter.cells
        self.every = splitter.every
        self.event = message.trigger
        self.offset = offset
        self.today = today
        self.place = ""
        self.warnings: list[str] = []
        self.made: dict[str, Keep] = {}
        self.all: dict[str, list[Segment]] = {}
        for segment in segments:
            self.all.setdefault(segment.name, []).append(segment)
        self.first: dict[str, Segment] = {name: group[0] for name, group in self.all.items()}

    @property
    def facility(self) -> str:
        """The sending facility, MSH-4.1; empty where there is none."""
        return self.message.facility

    @property
    def dialect(self) -> Hashable:
        """What a field's meaning depends on beside its text: how the message writes, its event, and who sends it."""
        message = self.message
        return message.dialect, self.offset, self.event, message.facility

    def shape(self, reads: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
        """Return which of some fields hold something in the first segment of each name, as bits; 0 without one."""
        first = self.first
        return tuple([first[name].filled & bits if name in first else 0 for name, bits in reads])

    def key(self, sources: tuple[tuple[str, int], ...]) -> Hashable:
        """Return the texts of fields (0: of all segments of the name), by which equal ones are known; None: no text."""
        if len(sources) == 1:
            name, number = sources[0]
            if number:
                found = self.first.get(name)
                return found.field(number) or None if found is not None else None
        texts = tuple([self._text(name, number) for name, number in sources])
        return texts if any(texts) else None

    def _text(self, name: str, number: int) -> str:
        if number:
            found = self.first.get(name)
            return found.field(number) if found is not None else ""
        return "\r".join([segment.text for segment in self.all.get(name, ())])

    def warn(self, reason: str) -> Any:
        """Note that something at the present place could not be used; always None, what a function then returns."""
        self.warnings.append(f"{reason} {self.place}")


def _clean(leaf: Leaf) -> str | Null:
    if isinstance(leaf, str):
        return leaf.strip()
    return NULL if leaf is NULL else ""
