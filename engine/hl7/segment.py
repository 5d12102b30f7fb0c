"""Segments, repetitions and cells: text that is cut only where it is asked, in the three states of a leaf."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import compress
from typing import Final

from engine.hl7.delimiters import Delimiters
from engine.hl7.escape import unescape
from engine.hl7.leaf import NULL, NULL_TEXT, Leaf, Null


class MessageEncoding:
    """How one message writes its parts: its delimiters, ready to cut by, and the codec of its escaped bytes."""

    __slots__ = ("charset", "cuts", "delimiters")

    def __init__(self, delimiters: Delimiters, charset: str) -> None:
        self.delimiters = delimiters
        self.charset = charset
        self.cuts = delimiters.cuts

    def part(self, text: str, subcomponent: int) -> Leaf:
        """Read a leaf out of the text of one component; all parts of a null component are null."""
        mark = self.cuts[2]
        if text == NULL_TEXT:
            return NULL
        if mark in text:
            parts = text.split(mark, subcomponent)
            text = parts[subcomponent - 1] if subcomponent <= len(parts) else ""
        elif subcomponent > 1:
            return None
        return self.value(text)

    def value(self, text: str) -> Leaf:
        """Read a leaf out of text that holds no delimiter any more."""
        if text == NULL_TEXT:
            return NULL
        return unescape(text, self.delimiters, self.charset) or None


@lru_cache(maxsize=256)
def dialect_of(delimiters: Delimiters, charset: str) -> MessageEncoding:
    """Return how a message with these delimiters writes; the same for every message that writes so."""
    return MessageEncoding(delimiters, charset)


class Repetition:
    """One repetition of a field; `text` is as sent."""

    __slots__ = ("_components", "_dialect", "text")

    def __init__(self, text: str, dialect: MessageEncoding) -> None:
        self.text = text
        self._dialect = dialect
        self._components: list[str] | None = None

    def _cut(self) -> list[str]:
        components = self._components = self.text.split(self._dialect.cuts[1])
        return components

    @property
    def is_null(self) -> bool:
        """Whether the whole repetition is `""`."""
        return self.text == NULL_TEXT

    def components(self) -> int:
        """Return how many components there are; 1 for text without a component separator."""
        return len(self._components or self._cut())

    def component(self, number: int) -> str:
        """Return the text of a component as sent, '' where it is absent."""
        components = self._components or self._cut()
        return components[number - 1] if number <= len(components) else ""

    def leaf(self, component: int = 1, subcomponent: int = 1) -> Leaf:
        """Return one leaf; all parts of a null repetition are null."""
        components = self._components or self._cut()
        if component > len(components):
            return NULL if self.text == NULL_TEXT else None
        text = components[component - 1]
        _, _, part, escape = self._dialect.cuts
        if subcomponent != 1 or part in text or escape in text or text == NULL_TEXT:
            return self._dialect.part(text, subcomponent)
        return text or None

    def subcomponents(self, component: int) -> tuple[Leaf, ...]:
        """Return the leaves of a component, () where it is absent."""
        text = self.component(component)
        if not text:
            return ()
        return tuple(map(self._dialect.value, text.split(self._dialect.cuts[2])))

    def __repr__(self) -> str:
        return f"<Repetition of {len(self.text)} characters>"


BITS: Final = tuple(1 << number for number in range(1000))
"""The bit of each field, or component, in a mask of those that hold something: paths go up to 999."""
NESTED: Final = BITS[0]
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
        return _cells(_clean(leaf) for leaf in self.repetition.subcomponents(component))


def plain_cells(text: str, component: str) -> Cells:
    """Return the cells of a text without subcomponents and escapes."""
    parts = text.split(component)
    if " " in text or "\t" in text or not text.isascii():
        parts = [part.strip() for part in parts]
    filled = sum(compress(COMPONENTS, parts))
    return Cells([NULL if part == NULL_TEXT else part for part in parts] if NULL_TEXT in text else parts, filled)


def nested_cells(repetition: Repetition) -> Cells:
    """Return the cells of a repetition with subcomponents or escapes."""
    leaves = [_clean(repetition.leaf(number)) for number in range(1, repetition.components() + 1)]
    cells = _cells(leaves)
    cells.filled |= NESTED
    cells.repetition = repetition
    return cells


def _cells(leaves: Iterable[str | Null]) -> Cells:
    first = [*leaves]
    return Cells(first, sum(compress(COMPONENTS, [cell != "" for cell in first])))


def _clean(leaf: Leaf) -> str | Null:
    if isinstance(leaf, str):
        return leaf.strip()
    return NULL if leaf is NULL else ""


__all__ = ["HEADERS", "KINDS", "HeaderSegment", "Repetition", "Segment"]

HEADERS = frozenset({"MSH", "FHS", "BHS"})


class Segment:
    """One segment; `text` is as sent, without its end; `position` counts from 1 in the message.

    `texts` are its fields as sent, once `filled` was asked. `plain`: nothing in it is escaped, has subcomponents or is
    null, so that repetitions and components are all there is to cut.
    """

    __slots__ = ("_cells", "_dialect", "_filled", "_repetitions", "name", "plain", "position", "text", "texts")

    def __init__(self, name: str, text: str, position: int, dialect: MessageEncoding) -> None:
        self.name = name
        self.text = text
        self.position = position
        self._dialect = dialect
        self.texts: list[str] = []
        self.plain = False
        self._filled = -1
        self._cells: dict[int, tuple[Cells, ...]] | None = None
        self._repetitions: dict[int, tuple[Repetition, ...]] | None = None

    def _cut(self) -> list[str]:
        fields = self.texts = self.text.split(self._dialect.delimiters.field)
        return fields

    def fields(self) -> int:
        """Return the number of the last field sent, 0 for a bare name."""
        return len(self.texts or self._cut()) - 1

    def field(self, number: int) -> str:
        """Return the text of a field as sent, '' where it is absent; MSH-1 is the field separator."""
        fields = self.texts or self._cut()
        return fields[number] if 0 < number < len(fields) else ""

    @property
    def filled(self) -> int:
        """Which fields hold something: the sum of their BITS, and that of 0 for the segment itself."""
        filled = self._filled
        if filled < 0:
            filled = self._filled = sum(compress(BITS, self.texts or self._cut()))
            self.plain = self._is_plain()
        return filled

    def _is_plain(self) -> bool:
        _, _, subcomponent, escape = self._dialect.cuts
        text = self.text
        return not (escape in text or subcomponent in text or NULL_TEXT in text)

    def is_null(self, number: int) -> bool:
        """Whether the whole field is `""`: delete all that is stored of it."""
        return self.field(number) == NULL_TEXT

    def repetitions(self, number: int) -> tuple[Repetition, ...]:
        """Return the repetitions of a field, () where it is absent."""
        cut = self._repetitions
        if cut is None:
            cut = self._repetitions = {}
        found = cut.get(number)
        if found is None:
            found = cut[number] = self._repeated(number)
        return found

    def _repeated(self, number: int) -> tuple[Repetition, ...]:
        text = self.field(number)
        if not text:
            return ()
        return tuple([Repetition(part, self._dialect) for part in text.split(self._dialect.cuts[0])])

    def cells(self, number: int) -> tuple[Cells, ...]:
        """Return the repetitions of a field as cells, () where it is absent; split once."""
        cut = self._cells
        if cut is None:
            cut = self._cells = {}
        found = cut.get(number)
        if found is None:
            found = cut[number] = self._cells_of(number)
        return found

    def _cells_of(self, number: int) -> tuple[Cells, ...]:
        fields = self.texts or self._cut()
        text = fields[number] if number < len(fields) else ""
        repetition, component, subcomponent, escape = self._dialect.cuts
        if escape in text or subcomponent in text:
            return tuple(
                nested_cells(one)
                if escape in one.text or subcomponent in one.text
                else plain_cells(one.text, component)
                for one in self.repetitions(number)
            )
        if repetition in text:
            return tuple([plain_cells(one, component) for one in text.split(repetition)])
        return (plain_cells(text, component),) if text else ()

    def leaf(self, field: int, component: int = 1, subcomponent: int = 1, repetition: int = 1) -> Leaf:
        """Return one leaf; numbers count from 1. All parts of a null field, or of a null component, are null."""
        fields = self.texts or self._cut()
        text = fields[field] if field < len(fields) else ""
        if not text:
            return None
        repeat, part, small, escape = self._dialect.cuts
        if repeat in text or repetition != 1:
            parts = text.split(repeat, repetition)
            text = parts[repetition - 1] if repetition <= len(parts) else ""
        if part in text:
            parts = text.split(part, component)
            text = parts[component - 1] if component <= len(parts) else ""
        elif component != 1:
            return NULL if text == NULL_TEXT else None
        if subcomponent != 1 or small in text or escape in text or text == NULL_TEXT:
            return self._dialect.part(text, subcomponent)
        return text or None

    def __repr__(self) -> str:
        return f"<Segment {self.position}>"


class HeaderSegment(Segment):
    """MSH, FHS or BHS: its first field is the field separator itself, its second the other delimiters, never cut."""

    __slots__ = ()

    def _cut(self) -> list[str]:
        fields = super()._cut()
        fields.insert(1, self._dialect.delimiters.field)
        return fields

    def _is_plain(self) -> bool:
        return False

    def _repeated(self, number: int) -> tuple[Repetition, ...]:
        if number > 2:
            return super()._repeated(number)
        return (Repetition(self.field(number), PLAIN),) if self.field(number) else ()

    def leaf(self, field: int, component: int = 1, subcomponent: int = 1, repetition: int = 1) -> Leaf:
        """Return one leaf; of the fields that declare delimiters only the whole."""
        if field > 2:
            return Segment.leaf(self, field, component, subcomponent, repetition)
        return (self.field(field) or None) if component == subcomponent == repetition == 1 else None


PLAIN = MessageEncoding(Delimiters("", "", "", "", "", ""), "utf-8")
"""Cuts nothing and undoes nothing."""

KINDS: Final[Mapping[str, type[Segment]]] = dict.fromkeys(HEADERS, HeaderSegment)
"""As what the segments of a name are made that are not made as a Segment."""
