"""From segments to patient records: identities, identifiers, changes, and whether they are a stand-in's."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.fhir.plan import ElementChange, PatientRecord
from engine.hl7.leaf import NULL
from engine.mapping.events import People
from engine.mapping.getter import Step
from engine.mapping.identifier import Found
from engine.mapping.reading import Reading
from engine.mapping.slices import Writer


@dataclass(frozen=True, slots=True)
class PatientMapping:
    """The compiled resource file of the patient."""

    writers: tuple[Writer, ...]
    identifiers: Step
    merged_identifiers: Step
    people: People

    def record(self, found: Iterable[Found], reading: Reading) -> PatientRecord:
        """Return what the segments at hand say of the patient with these identities."""
        identifiers = made_identifiers(self.identifiers, reading)
        changes: list[ElementChange] = []
        for write, sources in self.writers:
            for segment, number in sources:
                if reading.valued(segment, number):
                    write(reading, changes)
                    break
        return PatientRecord(
            tuple(one.identity for one in found), identifiers, tuple(changes), self._stand_in(changes, reading)
        )

    def _stand_in(self, changes: list[ElementChange], reading: Reading) -> bool:
        """Say whether name or birth date stand for nobody in particular, or PID-24 says one of several births."""
        for change in changes:
            if change.element == "name" and any(self._nobody(item) for item in change.items):
                return True
            if change.element == "birthDate" and change.items and change.items[0] in self.people.birth_dates:
                return True
        pid = reading.first.get("PID")
        return pid is not None and pid.leaf(24) == "Y"

    def _nobody(self, name: dict[str, Any]) -> bool:
        for part in (name.get("family"), *name.get("given", ())):
            if part is None:
                continue
            text = part.upper()
            if text in self.people.names or text.startswith(self.people.beginnings):
                return True
        return False


def made_identifiers(step: Step, reading: Reading) -> tuple[Any, ...]:
    """Return the FHIR identifiers that a step makes, each system and value once."""
    made = step(None, reading)
    if made is None or made is NULL:
        return ()
    once: dict[tuple[str, str], Any] = {}
    for item in made:
        once.setdefault((item.get("system", ""), item["value"]), item)
    return tuple(once.values())
