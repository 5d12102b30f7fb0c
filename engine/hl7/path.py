"""Paths: where in a message a value stands, as people write it (`PID-3(2).4.1`, `PID-3[CX.5=MR].1`, `ZPI-3`).

SEG-field [ (repetition) | [TYPE.component.subcomponent=value] ] [.component [.subcomponent]]
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from engine.errors import PathError
from engine.hl7.leaf import Leaf
from engine.hl7.message import Message
from engine.hl7.repetition import Repetition
from engine.hl7.segment import Segment

_NUMBER: Final = r"[1-9][0-9]{0,2}"
_FORM: Final = re.compile(
    rf"(?P<segment>[A-Z][A-Z0-9]{{2}})-(?P<field>{_NUMBER})"
    rf"(?:\((?P<repetition>{_NUMBER})\)|\[(?:(?P<type>[A-Z]{{2,3}})\.)?(?P<at>{_NUMBER})(?:\.(?P<below>{_NUMBER}))?"
    rf"=(?P<value>[^\]\r\n]{{0,200}})\])?"
    rf"(?:\.(?P<component>{_NUMBER})(?:\.(?P<subcomponent>{_NUMBER}))?)?"
)

Getter = Callable[[Message], tuple[Leaf, ...]]


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which repetitions are meant: those whose leaf equals a value ('' for an absent one); `type` is for readers."""

    type: str
    component: int
    subcomponent: int | None
    value: str

    def holds(self, repetition: Repetition) -> bool:
        """Tell whether a repetition is meant."""
        return (repetition.leaf(self.component, self.subcomponent or 1) or "") == self.value

    def __str__(self) -> str:
        kind = f"{self.type}." if self.type else ""
        below = f".{self.subcomponent}" if self.subcomponent else ""
        return f"[{kind}{self.component}{below}={self.value}]"


@dataclass(frozen=True, slots=True)
class Path:
    """A place in a message; None where a part was not written: all repetitions, the first component."""

    segment: str
    field: int
    repetition: int | None = None
    component: int | None = None
    subcomponent: int | None = None
    predicate: Predicate | None = None

    def __str__(self) -> str:
        repetition = f"({self.repetition})" if self.repetition else ""
        component = f".{self.component}" if self.component else ""
        subcomponent = f".{self.subcomponent}" if self.subcomponent else ""
        return f"{self.segment}-{self.field}{repetition}{self.predicate or ''}{component}{subcomponent}"


def parse_path(text: str) -> Path:
    """Read a path; numbers run from 1 to 999. Raises PathError for anything else than the grammar above."""
    found = _FORM.fullmatch(text)
    if found is None:
        raise PathError
    predicate = None
    if found["at"]:
        predicate = Predicate(found["type"] or "", int(found["at"]), _number(found["below"]), found["value"])
    return Path(
        found["segment"],
        int(found["field"]),
        _number(found["repetition"]),
        _number(found["component"]),
        _number(found["subcomponent"]),
        predicate,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def selector(path: Path) -> Callable[[Segment], tuple[Repetition, ...]]:
    """Compile what chooses the repetitions of a path within one segment; () where none is meant or there.

    A field that is null as a whole is chosen by every predicate and by no repetition but the first: its list goes.
    """
    field, predicate = path.field, path.predicate
    if path.repetition is not None:
        at = path.repetition
        return lambda segment: segment.repetitions(field)[at - 1 : at]
    if predicate is None:
        return lambda segment: segment.repetitions(field)

    def chosen(segment: Segment) -> tuple[Repetition, ...]:
        found = segment.repetitions(field)
        if len(found) == 1 and found[0].is_null:
            return found
        return tuple([repetition for repetition in found if predicate.holds(repetition)])

    return chosen


def getter(path: Path) -> Getter:
    """Compile what reads a path: one leaf for each repetition meant, in all segments of that name, in their order.

    Within a repetition that is there, an absent part is None; where no repetition is, the answer is ().
    """
    name, choose = path.segment, selector(path)
    component, subcomponent = path.component or 1, path.subcomponent or 1

    def get(message: Message) -> tuple[Leaf, ...]:
        return tuple(
            [
                repetition.leaf(component, subcomponent)
                for segment in message.named(name)
                for repetition in choose(segment)
            ]
        )

    return get
