"""What the writers of a resource file say of a message; the same texts say the same, and are kept.

A file has many more writers than a message has fields that they read. Messages of one sender are of a few shapes, so
which writers have anything to read is worked out once for each shape.
"""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from engine.hl7.segment import BITS
from engine.mapping.kept import Kept
from engine.mapping.reading import Reading
from engine.mapping.slices import Sources, Writer

MAX_KEPT: Final = 1024
MAX_SHAPES: Final = 256
MAX_DIALECTS: Final = 8
Said = TypeVar("Said")
Asked = tuple[tuple[Writer, Kept[Hashable, Said]], ...]
Shape = tuple[int, ...]


class Sayings(Generic[Said]):
    """The writers of one file; `say` asks one of them and puts its answer in a form to keep."""

    def __init__(self, writers: tuple[Writer, ...], say: Callable[[Writer, Reading], Said]) -> None:
        self._writers = writers
        self._say = say
        self._reads = _reads(tuple(source for writer in writers for source in writer.sources))
        self._shelves: Kept[Hashable, _Shelf[Said]] = Kept(MAX_DIALECTS)

    def said(self, reading: Reading, dialect: Hashable) -> list[Said]:
        """Return what the writers say, in their order; `dialect`: what that depends on beside the texts."""
        shelf = self._shelves.get(dialect)
        if shelf is None:
            shelf = self._shelves.keep(dialect, _Shelf(len(self._writers)))
        shape = reading.shape(self._reads)
        asked = shelf.shapes.get(shape)
        if asked is None:
            asked = shelf.shapes.keep(shape, self._asked(shape, shelf))
        found = []
        for writer, kept in asked:
            text = reading.key(writer.sources)
            one = kept.get(text)
            found.append(kept.keep_if_again(text, self._say(writer, reading)) if one is None else one)
        return found

    def _asked(self, shape: Shape, shelf: "_Shelf[Said]") -> "Asked[Said]":
        """Return the writers that have something to read where the segments are of a shape, and those that need none."""
        filled = {name: bits for (name, _), bits in zip(self._reads, shape, strict=True)}
        pairs = zip(self._writers, shelf.kept, strict=True)
        return tuple((one, kept) for one, kept in pairs if not one.sources or _any_filled(one.sources, filled))


class _Shelf(Generic[Said]):
    """What was worked out for one dialect."""

    def __init__(self, count: int) -> None:
        self.kept: tuple[Kept[Hashable, Said], ...] = tuple(Kept(MAX_KEPT) for _ in range(count))
        self.shapes: Kept[Shape, Asked[Said]] = Kept(MAX_SHAPES)


def _reads(sources: Sources) -> tuple[tuple[str, int], ...]:
    """Return the segments that are read, each with the bits of its fields (that of 0: the segment itself)."""
    reads: dict[str, int] = {}
    for name, number in sources:
        reads[name] = reads.get(name, 0) | BITS[number]
    return tuple(reads.items())


def _any_filled(sources: Sources, filled: dict[str, int]) -> bool:
    return any(filled[name] & BITS[number] for name, number in sources)
