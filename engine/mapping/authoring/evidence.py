"""What an explanation says of one element: the rule, what it read, the rows and conditions, and what came out."""

from dataclasses import dataclass
from typing import Any

from engine.mapping.authoring.traced import AppliedFunction


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table that was used; `file` and `line` are empty and 0 where the table has no row for the code.

    `unmapped`: the code went on as it came, or as the table's default, with a warning. `policy`: what the table says of
    a code that it has no row for, and where.
    """

    table: str
    code: str
    file: str
    line: int
    unmapped: bool = False
    policy: str = ""
    policy_file: str = ""
    policy_line: int = 0


@dataclass(frozen=True, slots=True)
class AdditionalRead:
    """A field that a function or a condition read beside the rule's own, or `event`, and what stood there."""

    source: str
    segment: int
    raw: Any

    @property
    def field(self) -> str:
        """The field, `PID-5`."""
        return _field_of(self.source)


@dataclass(frozen=True, slots=True)
class CheckedCondition:
    """A condition that was checked: its element, place and text, whether it passed, and the values that it read."""

    element: str
    file: str
    line: int
    text: str
    passed: bool
    read: tuple[AdditionalRead, ...]


@dataclass(frozen=True, slots=True)
class CallingLine:
    """A line by which a rule was asked: an `each`, or a rule that names a data type or another file."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """How one element was made, or that a rule for it made nothing (`made` None).

    `element`: `Patient.name[0].family`, of the second one in a plan `Patient(2).name[0].family`. `source`: where in the
    message, `PID-5(2).1`; empty for a constant. `segment` counts the segments of that name from 1, 0 where it is the
    patient's first. `raw` is what stood there, `read` what functions read beside it. `conditions`: those that the
    element depends on, and what its object needs; where one stops the whole object, it is the rule. `warnings`: why a
    function made nothing of a value. `key`: the keys under which the rule stands, `elements.name.family`. `through`:
    the lines by which it was asked, from the outermost.
    """

    element: str
    file: str
    line: int
    rule: str
    source: str
    segment: int
    raw: Any
    functions: tuple[AppliedFunction, ...]
    rows: tuple[TableRow, ...]
    made: Any
    asked: bool
    record: int
    read: tuple[AdditionalRead, ...] = ()
    conditions: tuple[CheckedCondition, ...] = ()
    warnings: tuple[str, ...] = ()
    key: str = ""
    through: tuple[CallingLine, ...] = ()

    @property
    def field(self) -> str:
        """The field that the source is of, `PID-5`; empty for a constant."""
        return _field_of(self.source)

    @property
    def sources(self) -> tuple[str, ...]:
        """Every path that it depends on: its own, and those of functions and conditions."""
        beside = (*self.read, *(one for asked in self.conditions for one in asked.read))
        return tuple(dict.fromkeys((self.source, *(one.source for one in beside))))


def _field_of(path: str) -> str:
    return path.split("(", maxsplit=1)[0].split("[", maxsplit=1)[0].split(".", maxsplit=1)[0]
