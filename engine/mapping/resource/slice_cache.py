"""What slices of a resource say, by the texts that it depends on: the same texts say the same, and are read once.

A file has many more writers than a message has fields that they read. Messages of one sender are of a few shapes (which
fields hold something), so which writers to ask is worked out once for each shape.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from engine.hl7.cells import BITS
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.reading import Reading, Sources
from engine.mapping.resource.slices import Said, Writer

MAX_DIALECTS: Final = 8
MAX_KEPT: Final = 1024
MAX_SHAPES: Final = 256
Value = TypeVar("Value")


class SliceCache(Generic[Value]):
    """What was read of so many slices, apart for each way in which messages write."""

    def __init__(self, slices: int = 1) -> None:
        self._slices = range(slices)
        self._dialects: BoundedCache[Hashable, tuple[BoundedCache[Hashable, Value], ...]] = BoundedCache(MAX_DIALECTS)

    def of(self, reading: Reading) -> tuple[BoundedCache[Hashable, Value], ...]:
        """Return the cache of each slice for messages that write as the one that is read."""
        found = self._dialects.get(reading.dialect)
        if found is None:
            caches = tuple(BoundedCache[Hashable, Value](MAX_KEPT) for _ in self._slices)
            found = self._dialects.keep(reading.dialect, caches)
        return found


class Written:
    """What the writers of one file say of a message."""

    def __init__(self, writers: tuple[Writer, ...], read: Callable[[Writer, Reading], Said] = Writer.read) -> None:
        self._writers = writers
        self._read = read
        self._shapes = Shapes([writer.sources for writer in writers])
        self._cache: SliceCache[Said] = SliceCache(len(writers))

    def said(self, reading: Reading) -> list[Said]:
        """Return what the writers say, in their order."""
        caches = self._cache.of(reading)
        found = []
        for place in self._shapes.asked(reading):
            writer, cache = self._writers[place], caches[place]
            text = reading.key(writer.sources)
            key = (text, reading.event) if writer.by_event else text
            one = cache.get(key)
            found.append(cache.keep_if_again(key, self._read(writer, reading)) if one is None else one)
        return found


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
