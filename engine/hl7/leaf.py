"""Leaf values: the smallest part of a message, in one of three states (absent, null, value)."""

from enum import Enum
from typing import Final, Literal


class Null(Enum):
    """The explicit null of HL7 v2, `""`: delete what is stored (chapter 2, null values in fields)."""

    NULL = '""'

    def __repr__(self) -> str:
        return "NULL"

    def __bool__(self) -> Literal[False]:
        return False


NULL: Final = Null.NULL
NULL_TEXT: Final = NULL.value

Leaf = str | Null | None
"""None is absent (no information), NULL is `""` (delete), text is a value with its escapes undone, never ''."""
