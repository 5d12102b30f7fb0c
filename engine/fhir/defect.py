"""What is wrong with a resource: where, and of which kind; never the value itself."""

from enum import StrEnum
from typing import Final, NamedTuple

# Defects told of each kind of check.
MOST: Final = 100


class DefectKind(StrEnum):
    """What is wrong with an element: its shape, or the value in the right shape."""

    STRUCTURE = "structure"
    REQUIRED = "required"
    VALUE = "value"


class Defect(NamedTuple):
    """One fault of a resource: where (`Patient.name[0].family`) and of which kind; never the value itself."""

    path: str
    kind: DefectKind
    text: str
