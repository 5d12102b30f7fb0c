"""What a version of the standard says of a field, a component, a table: the values that a check goes by."""

import re
from dataclasses import dataclass, field
from typing import Final

from engine.hl7.conformance.primitive import Primitive

CODED: Final = frozenset({"CE", "CWE", "CNE", "CF"})
CODING_SYSTEMS: Final = "0396"
SYSTEM_PATTERN: Final = r"HL7[0-9]{4}|99[A-Za-z0-9]{1,4}|L"
_SYSTEM: Final = re.compile(SYSTEM_PATTERN)


@dataclass(frozen=True, slots=True)
class CodeTable:
    """A code table: number and title, its codes, and whether it is the sites' to extend (user-defined)."""

    number: str
    title: str
    codes: frozenset[str]
    open: bool

    @property
    def system(self) -> str:
        """What CWE.3 calls it."""
        return f"HL7{self.number}"

    def has(self, code: str) -> bool:
        """Tell whether a code is of the table; coding systems are of a pattern too."""
        return code in self.codes or (self.number == CODING_SYSTEMS and _SYSTEM.fullmatch(code) is not None)

    def __str__(self) -> str:
        return f"a code of table {self.number} ({self.title})"


@dataclass(frozen=True, slots=True)
class MessagePart:
    """A field, component or subcomponent.

    `most` is how often it may repeat: 0 withdrawn, -1 without bound. A composite has `parts`, a primitive
    `primitive`; of a type that varies both are empty.
    """

    number: int
    name: str
    type: str
    required: bool
    most: int
    table: CodeTable | None
    parts: tuple["MessagePart", ...]
    primitive: Primitive | None

    @property
    def coded(self) -> bool:
        """Whether it is a coded element with a table: its first code is of that, or says of which other system."""
        return self.table is not None and self.type in CODED


@dataclass(frozen=True, slots=True)
class SegmentRule:
    """The fields of a segment, field n at index n, those that are required, and the shapes made so far, by number."""

    fields: tuple[MessagePart | None, ...]
    required: tuple[MessagePart, ...]
    shapes: dict[int, re.Pattern[str] | None] = field(default_factory=dict)
