"""What the writers of a resource file say of a message; the same texts say the same, and are kept."""

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.reading import Reading
from engine.mapping.resource.shape import Shapes
from engine.mapping.resource.slices import Writer

MAX_KEPT: Final = 1024
MAX_DIALECTS: Final = 8
Said = TypeVar("Said")


class Sayings(Generic[Said]):
    """The writers of one file; `say` asks one of them and puts its answer in a form to keep."""

    def __init__(self, writers: tuple[Writer, ...], say: Callable[[Writer, Reading], Said]) -> None:
        self._writers = writers
        self._say = say
        self._shapes = Shapes([writer.sources for writer in writers])
        self._shelves: BoundedCache[Hashable, tuple[tuple[Writer, BoundedCache[Hashable, Said]], ...]] = BoundedCache(
            MAX_DIALECTS
        )

    def said(self, reading: Reading) -> list[Said]:
        """Return what the writers say, in their order."""
        shelf = self._shelves.get(reading.dialect)
        if shelf is None:
            shelf = self._shelves.keep(
                reading.dialect, tuple((writer, BoundedCache(MAX_KEPT)) for writer in self._writers)
            )
        found = []
        for place in self._shapes.asked(reading):
            writer, kept = shelf[place]
            text = reading.key(writer.sources)
            key = (text, reading.event) if writer.by_event else text
            one = kept.get(key)
            found.append(kept.keep_if_again(key, self._say(writer, reading)) if one is None else one)
        return found
