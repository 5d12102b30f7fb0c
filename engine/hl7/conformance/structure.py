"""Segments against the message structure: what is missing, unexpected, out of order, or there too often."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from engine.hl7.conformance.deviation import ConformanceRule
from engine.hl7.events import StructurePart, grammar

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
