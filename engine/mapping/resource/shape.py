"""The shape of a message: which fields hold something, and so which writers of a resource file have any to read.

A file has many more writers than a message has fields that they read. Messages of one sender are of a few shapes, so
which writers to ask is worked out once for each shape.
"""

from collections.abc import Sequence
from typing import Final

from engine.hl7.cells import BITS
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.reading import Reading, Sources

MAX_SHAPES: Final = 256


class Shapes:
    """Which of some writers to ask, each known by the fields it reads (0: all segments of the name)."""

    def __init__(self, sources: Sequence[Sources]) -> None:
        self._sources = tuple(sources)
        reads: dict[str, int] = {}
        for name, number in (source for one in self._sources for source in one):
            reads[name] = reads.get(name, 0) | BITS[number]
        self._reads = tuple(reads.items())
        self._asked: BoundedCache[tuple[int, ...], tuple[int, ...]] = BoundedCache(MAX_SHAPES)

    def asked(self, reading: Reading) -> tuple[int, ...]:
        """Return the places of the writers that have something to read, and of those that read nothing."""
        shape = reading.shape(self._reads)
        asked = self._asked.get(shape)
        return self._asked.keep(shape, self._to_ask(shape)) if asked is None else asked

    def _to_ask(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        filled = {name: bits for (name, _), bits in zip(self._reads, shape, strict=True)}
        return tuple(
            place
            for place, sources in enumerate(self._sources)
            if not sources or any(filled[name] & BITS[number] for name, number in sources)
        )
