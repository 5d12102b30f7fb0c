"""Where a template stands, and what a data type becomes."""

from dataclasses import dataclass

from engine.mapping.check import Path
from engine.mapping.document import Document
from engine.mapping.getter import Step


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a template stands: its file, its path in it, and what is at hand: a segment, or a repetition of a type."""

    document: Document
    path: Path = ()
    segment: str = ""
    type_: str = ""

    def at(self, *steps: str | int) -> "Scope":
        """Return the scope further down in the file."""
        return Scope(self.document, (*self.path, *steps), self.segment, self.type_)


@dataclass(frozen=True, slots=True)
class DataType:
    """A compiled data type: the FHIR type it makes, its step over cells, and steps of further items it makes."""

    to: str
    step: Step
    also: tuple[Step, ...] = ()
