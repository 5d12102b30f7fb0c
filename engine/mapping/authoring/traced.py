"""The records of watched steps: place, values read, result, and nested steps."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from engine.hl7.leaf import NULL, Leaf
from engine.hl7.segment import Segment
from engine.mapping.language.expression import (
    Alternative,
    FunctionCall,
    Guard,
    RepetitionPath,
    SegmentPath,
    Source,
    parse_path,
)
from engine.mapping.language.function_context import Takes
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.reading import Cells, MessageReading
from engine.mapping.language.scope import Scope

# The words for what functions use of a reading.
ASKED: Final = {"today": "the day of the event", "source": "MSH-3.1|MSH-4.1"}


class StepKind(StrEnum):
    """The result of a step: a list from one entry, an item for each repetition, one item, an object, or a value.

    The result of a condition is whether it passed.
    """

    ITEMS = "items"
    EACH = "each"
    ITEM = "item"
    ALSO = "also"
    OBJECT = "object"
    RULE = "rule"
    CONDITION = "condition"


@dataclass(frozen=True, slots=True)
class TracedLookUp:
    """A look-up in a table; `key` is the table's spelling of the code, None if it has none.

    `unmapped`: the function had no other way to a code, and warned.
    """

    table: str
    code: str
    key: str | None
    unmapped: bool = False


@dataclass(frozen=True, slots=True)
class AppliedFunction:
    """An applied function: its text, its input, and its result."""

    function: str
    given: Any
    made: Any


@dataclass(frozen=True, slots=True)
class ReadValue:
    """An additional value that a step read: the path, or a word if it is not a field, and the value."""

    path: Source
    raw: Any


@dataclass(slots=True)
class TracedStep:
    """One executed step: its place, its result, and its nested steps.

    `asked`: its path was read, or a function applied; else a condition stopped it, or its part was empty. `raw` is the
    text at its path, `read` the additional values of functions and conditions. `guard`: the text of a condition.
    `at_hand`: the segment or repetition at hand; `places`: the iterated ones.
    """

    kind: StepKind
    scope: Scope
    rule: Alternative | None = None
    source: str = ""
    value: Any = None
    asked: bool = False
    raw: Any = None
    applied: list[AppliedFunction] = field(default_factory=list)
    rows: list[TracedLookUp] = field(default_factory=list)
    children: "list[TracedStep]" = field(default_factory=list)
    read: list[ReadValue] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    guard: Guard | None = None
    at_hand: Any = None
    places: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TracedPath:
    """A path in a mapping: its place, whether a function takes all of it, and that function."""

    scope: Scope
    head: SegmentPath | RepetitionPath
    takes: Takes
    function: str = ""


@dataclass(frozen=True, slots=True)
class TracedEach:
    """An iterated source: a field or segment, and the data type that reads each item (or none)."""

    scope: Scope
    source: str
    as_: str = ""


def gone_through(source: str, at_hand: Any, reading: MessageReading) -> tuple[Any, ...]:
    """Return the segments of a name, or the repetitions of a field, in the order of a step's iteration."""
    path = parse_path(source)
    if not isinstance(path, SegmentPath):
        return tuple(reading.all.get(source, ()))
    within = isinstance(at_hand, Segment) and at_hand.name == path.segment
    segment = at_hand if within else reading.first.get(path.segment)
    return segment.cells(path.field) if segment else ()


def additional_reads(call: FunctionCall, reading: MessageReading) -> Iterator[ReadValue]:
    """Yield the additional input of a function: a field, the day of the event, the sender."""
    function = FUNCTIONS.get(call.name)
    if function is None:
        return
    path = parse_path(call.arguments[0]) if function.field else None
    if isinstance(path, SegmentPath):
        segment = reading.first.get(path.segment)
        yield ReadValue(path, segment.leaf(path.field) if segment else None)
    elif function.asks == "pid":
        segment = reading.pid
        yield ReadValue(SegmentPath("PID", 3), segment.leaf(3) if segment else None)
    elif function.asks:
        yield ReadValue(ASKED[function.asks], getattr(reading, function.asks))


def shown(value: Any) -> Leaf | Any:
    """Return a step's input or result, repetitions as plain text."""
    if isinstance(value, Cells):
        return "^".join('""' if cell is NULL else str(cell) for cell in value.first).rstrip("^")
    if isinstance(value, tuple):
        return "~".join(str(shown(part)) for part in value)
    return value
