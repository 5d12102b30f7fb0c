"""Paths: the place of a value in a message, as people write it (`PID-3(2).4.1`, `PID-3[CX.5=MR].1`, `ZPI-3`).

SEG-field [ (repetition) | [TYPE.component.subcomponent=value] ] [.component [.subcomponent]]
"""

import re
from dataclasses import dataclass
from typing import Final

from engine.errors import PathError
from engine.hl7.leaf import Leaf
from engine.hl7.message import Message
from engine.hl7.segment import Repetition, Segment

_NUMBER: Final = r"[1-9][0-9]{0,2}"
_FORM: Final = re.compile(
    rf"(?P<segment>[A-Z][A-Z0-9]{{2}})-(?P<field>{_NUMBER})"
    rf"(?:\((?P<repetition>{_NUMBER})\)|\[(?:(?P<type>[A-Z]{{2,3}})\.)?(?P<at>{_NUMBER})(?:\.(?P<below>{_NUMBER}))?"
    rf"=(?P<value>[^\]\r\n]{{0,200}})\])?"
    rf"(?:\.(?P<component>{_NUMBER})(?:\.(?P<subcomponent>{_NUMBER}))?)?"
)


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

    def leaves(self, message: Message) -> tuple[Leaf, ...]:
        """Return one leaf for each repetition meant, in all segments of that name, in their order.

        Within a repetition that is there, an absent part is None; where no repetition is, the answer is ().
        """
        component, subcomponent = self.component or 1, self.subcomponent or 1
        segments = message.named(self.segment)
        return tuple([one.leaf(component, subcomponent) for found in segments for one in self.repetitions(found)])

    def repetitions(self, segment: Segment) -> tuple[Repetition, ...]:
        """Return the repetitions that are meant within one segment; () where none is meant or there.

        A field that is null as a whole is chosen by every predicate and by no repetition but the first: its list goes.
        """
        found, predicate = segment.repetitions(self.field), self.predicate
        if self.repetition is not None:
            return found[self.repetition - 1 : self.repetition]
        if predicate is None or (len(found) == 1 and found[0].is_null):
            return found
        return tuple([one for one in found if predicate.holds(one)])


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
