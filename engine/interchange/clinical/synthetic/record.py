"""What the facts of a chart have in common: whose they are, who noted them, when, and by which draws."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.synthetic.elements import to
from engine.interchange.clinical.synthetic.person import Draw, SyntheticDirectory

YEAR_DAYS: Final = 365.25


@dataclass(slots=True)
class SyntheticRecord:
    """A chart while it is written: `born` to `end` is the time it may speak of.

    `problems` are the lasting ones, by SNOMED CT code; `operated` what surgery took out.
    """

    draw: Draw
    patient: JsonObject
    directory: SyntheticDirectory
    born: datetime
    end: datetime
    problems: JsonObject = field(default_factory=dict)
    operated: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def grown(self) -> bool:
        """Whether the patient is an adult at the end."""
        return self.years(self.end) >= 18

    def years(self, at: datetime) -> float:
        """Return the patient's age."""
        return (at - self.born) / timedelta(days=YEAR_DAYS)

    def make(self, type_name: str, holder: str = "subject", **elements: Any) -> JsonObject:
        """Return a new resource of this patient."""
        return {"resourceType": type_name, "id": self.draw.id(), holder: to(self.patient), **elements}

    def doctor(self) -> JsonObject:
        """Return a reference to one of the doctors."""
        return to(self.draw.pick(self.directory.doctors))
