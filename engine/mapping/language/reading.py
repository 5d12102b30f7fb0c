"""The input of expressions: the segments of one patient, and the cells of one repetition."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

from engine.fhir.plan import Needed, UnmappedCode
from engine.hl7.message import Message, Segment
from engine.hl7.segment import Cells

__all__ = ["EVERYTHING", "Cells", "MessageReading", "Sources", "by_name"]

EVERYTHING: Final = -1
REPETITION_LEFT_OUT: Final = "repetition-left-out"
Sources = tuple[tuple[str, int], ...]


class MessageReading:
    """One pass over the segments of one patient; gathers warnings (a code and a place, never a value).

    Values that are cached for other messages are read by a separate reading (`apart`), with its own warnings.

    `facility` is MSH-4.1, or empty. `all` are these segments by name, `first` the first of each.

    `offset` is MSH-7's, for timestamps without one of their own; `today` the day of the event as YYYYMMDD, or empty.
    `dialect`: the encoding and the sender, on which a field's meaning depends in addition to its text and the event.
    `referred`: the resources that the values read refer to, by local name, each after those that it refers to itself.
    `once`: repeated fields with one repetition read, `whole`: those with all of them read; `repeat` separates them,
    and `component` the components of one.
    """

    __slots__ = (
        "all",
        "component",
        "dialect",
        "event",
        "facility",
        "first",
        "message",
        "offset",
        "once",
        "place",
        "referred",
        "repeat",
        "today",
        "warnings",
        "whole",
    )

    def __init__(
        self, message: Message, groups: Mapping[str, Sequence[Segment]], offset: tzinfo | None, today: str
    ) -> None:
        self.message = message
        self.event = message.trigger
        self.offset = offset
        self.today = today
        self.facility = message.facility
        self.dialect: Hashable = (message.dialect, offset, self.facility)
        self.place = ""
        self.warnings: list[str] = []
        self.repeat, self.component, _, _ = message.dialect.cuts
        self.once: list[str] = []
        self.whole: list[str] = []
        self.referred: dict[str, Needed] = {}
        self.all = groups
        self.first = message.firsts if groups is message.groups else {name: group[0] for name, group in groups.items()}

    def apart(self, first: dict[str, Segment] | None = None) -> "MessageReading":
        """Return a fresh reading of the same segments; `first`: with other first ones."""
        own = MessageReading.__new__(MessageReading)
        own.message, own.event, own.offset, own.today = self.message, self.event, self.offset, self.today
        own.dialect, own.repeat, own.component, own.all = self.dialect, self.repeat, self.component, self.all
        own.facility = self.facility
        own.first = self.first if first is None else first
        own.forget()
        return own

    def forget(self) -> None:
        """Start new notes; the earlier ones belong to the earlier reader."""
        self.place = ""
        self.warnings, self.once, self.whole, self.referred = [], [], [], {}

    @property
    def pid(self) -> Segment | None:
        """The PID of the patient, None without one."""
        return self.first.get("PID")

    @property
    def source(self) -> str:
        """The sending application and facility, `MSH-3.1|MSH-4.1`."""
        return self.message.source

    def shape(self, reads: Sources) -> tuple[int, ...]:
        """Return, as bits, which fields are filled in the first segment of each name; 0 without a segment."""
        first = self.first
        return tuple([first[name].filled & bits if name in first else 0 for name, bits in reads])

    def texts(self, name: str) -> str:
        """Return the text of all segments of a name."""
        return "\r".join([segment.text for segment in self.all.get(name, ())])

    def warn_left_out(self) -> None:
        """Warn of each field with unread repetitions after the one that was read."""
        places = dict.fromkeys([place for place in self.once if place not in self.whole])
        self.warnings += [f"{REPETITION_LEFT_OUT} {place}" for place in places]

    def warn(self, reason: str) -> Any:
        """Warn of an unusable value at the current place; returns None, for functions to return."""
        self.warnings.append(f"{reason} {self.place}")


def by_name(segments: Iterable[Segment]) -> dict[str, list[Segment]]:
    """Return segments by their names, each group in the order given."""
    groups: dict[str, list[Segment]] = {}
    for segment in segments:
        groups.setdefault(segment.name, []).append(segment)
    return groups


class UnmappedWarning(str):
    """`unmapped-code PID-16`, and the table that has no row for the code."""

    __slots__ = ("table",)
    table: str

    def __new__(cls, text: str, table: str) -> "UnmappedWarning":
        """Return the text with its table."""
        made = super().__new__(cls, text)
        made.table = table
        return made


def unmapped_in(warnings: Iterable[str]) -> tuple[UnmappedCode, ...]:
    """Return each table that lacked a code, with the field, once; never the code."""
    found = (UnmappedCode(one.table, one.partition(" ")[2]) for one in warnings if isinstance(one, UnmappedWarning))
    return tuple(dict.fromkeys(found))
