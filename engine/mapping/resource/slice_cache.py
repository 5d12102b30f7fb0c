"""Slices of a resource, cached by their dependence: the same texts make the same changes.

A file has many more writers than a message has fields. Messages of one sender have a few shapes (sets of filled
fields), so the writers to run are computed once for each shape.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

from engine.hl7.segment import BITS
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.dependence import Dependence
from engine.mapping.language.reading import MessageReading, Sources
from engine.mapping.resource.slice_writer import SliceChanges, SliceWriter

MAX_DIALECTS: Final = 8
MAX_KEPT: Final = 1024
MAX_SHAPES: Final = 256
Value = TypeVar("Value")


class SliceCache(Generic[Value]):
    """Cached values of slices, at most `most` of each, separate for each dialect of messages."""

    def __init__(self, slices: int = 1, most: int = MAX_KEPT) -> None:
        self._slices = range(slices)
        self._most = most
        self._dialects: BoundedCache[Hashable, tuple[BoundedCache[Hashable, Value], ...]] = BoundedCache(MAX_DIALECTS)

    def of(self, reading: MessageReading) -> tuple[BoundedCache[Hashable, Value], ...]:
        """Return the cache of each slice for messages of the same dialect."""
        found = self._dialects.get(reading.dialect)
        if found is None:
            caches = tuple(BoundedCache[Hashable, Value](self._most) for _ in self._slices)
            found = self._dialects.keep(reading.dialect, caches)
        return found


class Memo(Generic[Value]):
    """A value of messages, cached by its dependence."""

    def __init__(self, depends: Dependence, read: Callable[[MessageReading], Value], most: int = MAX_KEPT) -> None:
        self._depends = depends
        self._read = read
        self._cache: SliceCache[Value] = SliceCache(most=most)

    def of(self, reading: MessageReading) -> Value:
        """Return the value of a message."""
        (cache,) = self._cache.of(reading)
        key = self._depends.key(reading)
        kept = cache.get(key)
        return cache.keep_if_again(key, self._read(reading)) if kept is None else kept


class SliceReader:
    """Reads the slices of one file; `read` reads one of them, `most` is the cached number of each.

    `always`: writers that are run even if all that they read is empty, because they may write a constant.
    """

    def __init__(
        self,
        writers: tuple[SliceWriter, ...],
        read: Callable[[SliceWriter, MessageReading], SliceChanges] = SliceWriter.read,
        most: int = MAX_KEPT,
        *,
        always: bool = False,
    ) -> None:
        self._read_one = read
        self._shapes = Shapes([() if always and writer.always else writer.depends.own for writer in writers])
        fields = [None if always and writer.always else writer.depends.field for writer in writers]
        self._writers = tuple(zip(writers, fields, strict=True))
        self._cache: SliceCache[SliceChanges] = SliceCache(len(writers), most)

    def read(self, reading: MessageReading) -> list[SliceChanges]:
        """Return the changes of each slice that a message fills, in the order of the file."""
        caches = self._cache.of(reading)
        first, found = reading.first, []
        own: MessageReading | None = None
        for place in self._shapes.to_read(reading):
            writer, field = self._writers[place]
            key = first[field[0]].texts[field[1]] if field else writer.depends.key(reading)
            cache = caches[place]
            one = cache.get(key)
            if one is None:
                own = own or reading.apart()
                one = cache.keep_if_again(key, self._read_one(writer, own))
            found.append(one)
        return found


class Shapes:
    """The writers to run, each described by the fields that it reads (0: all segments of the name)."""

    def __init__(self, sources: Sequence[Sources]) -> None:
        self._sources = tuple(sources)
        reads: dict[str, int] = {}
        for name, number in (source for one in self._sources for source in one):
            reads[name] = reads.get(name, 0) | BITS[number]
        self._reads = tuple(reads.items())
        self._known: BoundedCache[tuple[int, ...], tuple[int, ...]] = BoundedCache(MAX_SHAPES)

    def to_read(self, reading: MessageReading) -> tuple[int, ...]:
        """Return the indices of the writers with a filled field, and of those that read no field."""
        shape = reading.shape(self._reads)
        places = self._known.get(shape)
        return self._known.keep(shape, self._to_run(shape)) if places is None else places

    def _to_run(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        filled = {name: bits for (name, _), bits in zip(self._reads, shape, strict=True)}
        return tuple(
            place
            for place, sources in enumerate(self._sources)
            if not sources or any(filled[name] & BITS[number] for name, number in sources)
        )
