"""Segments: text that is cut only where it is asked, in the three states of a leaf."""

from collections.abc import Mapping
from itertools import compress
from typing import Final

from engine.hl7.cells import BITS, Cells, nested_cells, plain_cells
from engine.hl7.delimiters import Delimiters
from engine.hl7.leaf import NULL, NULL_TEXT, Leaf
from engine.hl7.repetition import MessageEncoding, Repetition

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
