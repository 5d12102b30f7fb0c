"""What an expression reads from: the segments that speak of one patient, and the cells of one repetition."""

from collections.abc import Hashable, Iterable
from datetime import tzinfo
from typing import Any, Final

from engine.fhir.plan import Keep
from engine.hl7.leaf import NULL, Leaf, Null
from engine.hl7.message import Message, Repetition, Segment

NESTED: Final = 1
EVERYTHING: Final = -1
MOST: Final = 62


def mask_of(component: int) -> int:
    """Return the mask of a component."""
    return 1 << min(component, MOST)


class Cells:
    """One repetition, split: `first` holds each component's first subcomponent ('' absent, NULL deleted).

    `filled` (once `marked`) has a bit for each component that holds something, and NESTED where there are
    subcomponents: who needs what is not there need not be asked.
    """

    __slots__ = ("filled", "first", "nested", "repetition")

    def __init__(self, first: list[str | Null], repetition: Repetition | None, *, nested: bool) -> None:
        self.first = first
        self.repetition = repetition
        self.nested = nested
        self.filled = 0

    def marked(self) -> "Cells":
        """Return the cells with `filled` worked out."""
        filled, bit = NESTED if self.nested else 0, 2
        for cell in self.first if len(self.first) <= MOST else self.first[:MOST]:
            if cell or cell is NULL:
                filled |= bit
            bit <<= 1
        self.filled = filled
        return self

    def leaf(self, component: int, subcomponent: int) -> Leaf:
        """Return a subcomponent; None where it is absent."""
        if subcomponent == 1:
            value = self.first[component - 1] if component <= len(self.first) else ""
            return None if value == "" else value
        if not self.nested or self.repetition is None:
            return None
        value = _clean(self.repetition.leaf(component, subcomponent))
        return None if value == "" else value

    def subcomponents(self, component: int) -> "Cells":
        """Return a component as the cells of a data type of its own."""
        if not self.nested or self.repetition is None:
            return Cells(self.first[component - 1 : component], None, nested=False).marked()
        leaves = self.repetition.subcomponents(component)
        return Cells([_clean(leaf) for leaf in leaves], None, nested=False).marked()


class Held:
    """A segment at hand: `filled` has a bit for each field that holds something."""

    __slots__ = ("filled", "segment")

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        filled, bit = 0, 2
        for number in range(1, min(segment.fields(), MOST) + 1):
            if segment.field(number):
                filled |= bit
            bit <<= 1
        self.filled = filled


class Splitter:
    """Splits the repetitions of one message."""

    __slots__ = ("_marks",)

    def __init__(self, message: Message) -> None:
        self._marks = message.delimiters.cuts

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
        return Cells([_clean(repetition.leaf(number)) for number in range(1, count + 1)], repetition, nested=True)


def _plain(text: str, component: str) -> Cells:
    parts: list[str | Null] = [*text.split(component)]
    if " " in text:
        parts = [part.strip() for part in text.split(component)]
    if '""' in text:
        parts = [NULL if part == '""' else part for part in parts]
    return Cells(parts, None, nested=False)


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
        facility = self.message.leaf("MSH", 4)
        return facility if isinstance(facility, str) else ""

    def key(self, sources: tuple[tuple[str, int], ...]) -> Hashable | None:
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
