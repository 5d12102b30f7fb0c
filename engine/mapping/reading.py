"""What an expression reads from: the segments that speak of one patient, and the cells of one repetition."""

from collections.abc import Hashable, Iterable
from datetime import tzinfo
from typing import Any, Final

from engine.fhir.plan import Keep
from engine.hl7.cells import Cells
from engine.hl7.message import Message, Segment

__all__ = ["EVERYTHING", "Cells", "Reading", "Sources"]

EVERYTHING: Final = -1
Sources = tuple[tuple[str, int], ...]


class Reading:
    """One pass over the segments that speak of one patient; gathers warnings (a code and a place, never a value).

    `offset` is MSH-7's, for timestamps without one of their own; `today` the day of the event as YYYYMMDD, or empty.
    `dialect`: what a field's meaning depends on beside its text: how the message writes, its event, and who sends it.
    `made`: the resources that what was read refers to, by local name, each after those that it refers to itself.
    """

    __slots__ = ("all", "dialect", "event", "first", "made", "message", "offset", "place", "today", "warnings")

    def __init__(self, message: Message, segments: Iterable[Segment], offset: tzinfo | None, today: str) -> None:
        self.message = message
        self.event = message.trigger
        self.offset = offset
        self.today = today
        self.dialect: Hashable = (message.dialect, offset, self.event, message.facility)
        self.place = ""
        self.warnings: list[str] = []
        self.made: dict[str, Keep] = {}
        self.all: dict[str, list[Segment]] = {}
        for segment in segments:
            self.all.setdefault(segment.name, []).append(segment)
        self.first: dict[str, Segment] = {name: group[0] for name, group in self.all.items()}

    def every(self, segment: Segment, number: int) -> tuple[Cells, ...]:
        """Return the cells of every repetition of a field."""
        return segment.cells(number)

    @property
    def facility(self) -> str:
        """The sending facility, MSH-4.1; empty where there is none."""
        return self.message.facility

    def shape(self, reads: Sources) -> tuple[int, ...]:
        """Return which of some fields hold something in the first segment of each name, as bits; 0 without one."""
        first = self.first
        return tuple([first[name].filled & bits if name in first else 0 for name, bits in reads])

    def key(self, sources: Sources) -> Hashable:
        """Return the texts of fields (0: of all segments of the name), by which equal ones are known; None: no text."""
        if len(sources) == 1:
            name, number = sources[0]
            if number:
                found = self.first.get(name)
                return found.field(number) or None if found is not None else None
        texts = tuple([self._text(name, number) for name, number in sources])
        return texts if any(texts) else None

    def _text(self, name: str, number: int) -> str:
        if number:
            found = self.first.get(name)
            return found.field(number) if found is not None else ""
        return "\r".join([segment.text for segment in self.all.get(name, ())])

    def warn(self, reason: str) -> Any:
        """Note that something at the present place could not be used; always None, what a function then returns."""
        self.warnings.append(f"{reason} {self.place}")
