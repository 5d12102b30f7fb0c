"""The evidence of one element: its rule, the values read, the rows and conditions, and the result."""

from dataclasses import dataclass
from typing import Any, Final

from engine.mapping.authoring.traced import AppliedFunction
from engine.mapping.files.document import Document
from engine.mapping.language.scope import Scope
from engine.mapping.resource.referred import ALSO, FROM, NUMBER

# Steps of a path in a file that are not elements.
WORDS: Final = frozenset({"each", "as", "first", "needs", "default", "fill", "also", "when", "unless"})
# Sections of files whose lines are elements of the resource.
ELEMENTS: Final = frozenset({"", "elements", "also", "value"})
# Sections of several parts with elements of their own; and the section of the identity.
PARTS: Final = frozenset({"levels", "segments", "kinds"})
IDENTITIES: Final = frozenset({"identity", "key"})


def element_of(scope: Scope) -> str:
    """Return the element of a resource that a place in a resource file is for; empty in any other file."""
    resource = scope.document.value.get("resource")
    return ".".join((str(resource), *element_names(scope.document, scope.path))) if resource else ""


def element_names(document: Document, path: tuple[str | int, ...]) -> tuple[str, ...]:
    """Return the elements on a path in a file; `period.end` is two of them.

    Places in other sections than those of elements keep the section's name: `merged.identifier`, `new.class`.
    """
    section, rest = (str(path[0]), path[1:]) if path else ("", ())
    if section in PARTS:
        section, rest = (str(path[2]), path[3:]) if len(path) > 2 else ("", ())
    if section == "status":
        return (str((document.value.get("status") or {}).get("element") or section),)
    if section in IDENTITIES and rest[:1] == (NUMBER,):
        section, rest = "identifier", rest[1:]
    elif section in IDENTITIES:
        return (section,)
    elif section == ALSO and FROM in document.value:
        section = "identifier"
    names = [] if section in ELEMENTS else [section]
    for step, below in zip(rest, (*rest[1:], ""), strict=False):
        if isinstance(step, str) and step not in WORDS and not step.endswith("[x]"):
            name, _, part = step.partition(".")
            names += [name] if below == part else step.split(".")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class TableRow:
    """A used row of a table; `file` and `line` are empty and 0 if the table has no row for the code.

    `unmapped`: the code was kept, or replaced by the table's default, with a warning. `policy`: the table's policy for
    a code without a row, and its place.
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
    """An additional field (or `event`) that a function or a condition read, and its value."""

    source: str
    segment: int
    raw: Any

    @property
    def field(self) -> str:
        """The field, `PID-5`."""
        return _field_of(self.source)


@dataclass(frozen=True, slots=True)
class CheckedCondition:
    """A checked condition: its element, place and text, whether it passed, and the values that it read."""

    element: str
    file: str
    line: int
    text: str
    passed: bool
    read: tuple[AdditionalRead, ...]


@dataclass(frozen=True, slots=True)
class CallingLine:
    """A line that called a rule: an `each`, or a rule that names a data type or another file."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one element, or of a rule that made nothing (`made` None).

    `element`: `Patient.name[0].family`, of the second one in a plan `Patient(2).name[0].family`. `source`: where in the
    message, `PID-5(2).1`; empty for a constant. `segment` counts the segments of that name from 1, 0 for the
    patient's first. `raw` is the field's text, `read` the additional values that functions read. `conditions`: those
    that the element depends on, and its object's needs; one that stops the whole object is the rule itself.
    `warnings`: why a function made nothing of a value. `key`: the keys of the rule, `elements.name.family`. `through`:
    the lines that called it, from the outermost.
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
        """The field of the source, `PID-5`; empty for a constant."""
        return _field_of(self.source)

    @property
    def sources(self) -> tuple[str, ...]:
        """Every path that it depends on: its own, and those of functions and conditions."""
        additional = (*self.read, *(one for asked in self.conditions for one in asked.read))
        return tuple(dict.fromkeys((self.source, *(one.source for one in additional))))


def _field_of(path: str) -> str:
    return path.split("(", maxsplit=1)[0].split("[", maxsplit=1)[0].split(".", maxsplit=1)[0]
