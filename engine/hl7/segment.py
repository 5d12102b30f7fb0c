"""Segments and repetitions: text that is cut only where it is asked, in the three states of a leaf."""

from engine.hl7.delimiters import Delimiters
from engine.hl7.escape import unescape
from engine.hl7.leaf import NULL, NULL_TEXT, Leaf

HEADERS = frozenset({"MSH", "FHS", "BHS"})


class Dialect:
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


class Repetition:
    """One repetition of a field; `text` is as sent."""

    __slots__ = ("_components", "_dialect", "text")

    def __init__(self, text: str, dialect: Dialect) -> None:
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


class Segment:
    """One segment; `text` is as sent, without its end; `position` counts from 1 in the message."""

    __slots__ = ("_dialect", "_fields", "_repetitions", "name", "position", "text")

    def __init__(self, name: str, text: str, position: int, dialect: Dialect) -> None:
        self.name = name
        self.text = text
        self.position = position
        self._dialect = dialect
        self._fields: list[str] | None = None
        self._repetitions: dict[int, tuple[Repetition, ...]] | None = None

    def _cut(self) -> list[str]:
        fields = self._fields = self.text.split(self._dialect.delimiters.field)
        return fields

    def fields(self) -> int:
        """Return the number of the last field sent, 0 for a bare name."""
        return len(self._fields or self._cut()) - 1

    def field(self, number: int) -> str:
        """Return the text of a field as sent, '' where it is absent; MSH-1 is the field separator."""
        fields = self._fields or self._cut()
        return fields[number] if 0 < number < len(fields) else ""

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

    def leaf(self, field: int, component: int = 1, subcomponent: int = 1, repetition: int = 1) -> Leaf:
        """Return one leaf; numbers count from 1. All parts of a null field, or of a null component, are null."""
        fields = self._fields or self._cut()
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

    def _repeated(self, number: int) -> tuple[Repetition, ...]:
        if number > 2:
            return super()._repeated(number)
        return (Repetition(self.field(number), PLAIN),) if self.field(number) else ()

    def leaf(self, field: int, component: int = 1, subcomponent: int = 1, repetition: int = 1) -> Leaf:
        """Return one leaf; of the fields that declare delimiters only the whole."""
        if field > 2:
            return super().leaf(field, component, subcomponent, repetition)
        return (self.field(field) or None) if component == subcomponent == repetition == 1 else None


PLAIN = Dialect(Delimiters("", "", "", "", "", ""), "utf-8")
"""Cuts nothing and undoes nothing."""


def segment_of(name: str, text: str, position: int, dialect: Dialect) -> Segment:
    """Make the segment that a text is."""
    made = HeaderSegment if name in HEADERS else Segment
    return made(name, text, position, dialect)
