"""Defects of a resource: place and kind, never the value."""

from enum import StrEnum
from typing import Final, NamedTuple

# Defects reported of each kind of check.
MOST: Final = 100


class DefectKind(StrEnum):
    """What is wrong with an element: its shape, or the value in the right shape."""

    STRUCTURE = "structure"
    REQUIRED = "required"
    VALUE = "value"


class Defect(NamedTuple):
    """One defect of a resource; `path` is FHIRPath (`Patient.name[0].family`)."""

    path: str
    kind: DefectKind
    text: str
