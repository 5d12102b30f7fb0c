"""Cells: a repetition as a mapping reads it, split once, unescaped, without blanks at the ends."""

from collections.abc import Iterable, Sequence
from itertools import compress
from typing import Final

from engine.hl7.leaf import NULL, NULL_TEXT, Leaf, Null
from engine.hl7.repetition import Repetition

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
