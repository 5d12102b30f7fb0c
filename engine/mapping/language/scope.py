"""The scope of a template, and compiled data types."""

from dataclasses import dataclass

from engine.mapping.files.document import Document
from engine.mapping.files.overlay import Key
from engine.mapping.language.node import Step

Path = tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """The file of a template, its path there, and the part at hand: a segment, or a repetition of a type.

    With both, the repetition of that segment is at hand.
    """

    document: Document
    path: Path = ()
    segment: str = ""
    type_: str = ""

    @property
    def at_hand(self) -> str:
        """The segment at hand; empty if a repetition is, or neither."""
        return "" if self.type_ else self.segment

    @property
    def held(self) -> bool:
        """True if a segment or a repetition is at hand."""
        return bool(self.type_ or self.segment)

    def at(self, *steps: str | int) -> "Scope":
        """Return the scope further down in the file."""
        return Scope(self.document, (*self.path, *steps), self.segment, self.type_)


@dataclass(frozen=True, slots=True)
class DataType:
    """A compiled data type: the FHIR type it makes, its step over cells, and steps of further items it makes."""

    to: str
    step: Step
    also: tuple[Step, ...] = ()
