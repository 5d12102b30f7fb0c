"""Repetitions of a field, and how a message writes its parts: text that is cut only where it is asked."""

from functools import lru_cache

from engine.hl7.delimiters import Delimiters
from engine.hl7.escape import unescape
from engine.hl7.leaf import NULL, NULL_TEXT, Leaf


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
