"""From segments to patient records: identities, identifiers, changes, and whether they are a stand-in's.

What a slice says depends on the text of its fields alone (and on how the message writes and where it stands in time),
so it is worked out once and kept. The values of a plan are therefore shared: nobody changes them in place.
"""

from collections.abc import Hashable, Iterable
from typing import Any, Final, NamedTuple

from engine.fhir.plan import ElementChange, PatientRecord
from engine.hl7.leaf import NULL
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.identifier import Found
from engine.mapping.language.node import Step
from engine.mapping.language.reading import Reading
from engine.mapping.resource.sayings import Sayings
from engine.mapping.resource.slices import Identifiers, Writer
from engine.mapping.subject.events import People

MAX_KEPT: Final = 1024


class Said(NamedTuple):
    """What one slice says: its changes, the warnings that came with them, and whether it names a stand-in."""

    changes: tuple[ElementChange, ...]
    warnings: tuple[str, ...]
    stand_in: bool


class Numbers(NamedTuple):
    """The FHIR identifiers of a patient, and the warnings that came with them."""

    identifiers: tuple[Any, ...]
    warnings: tuple[str, ...]


class PatientMapping:
    """The compiled resource file of the patient."""

    def __init__(
        self, writers: tuple[Writer, ...], identifiers: Identifiers, merged: Identifiers, people: People
    ) -> None:
        self._sayings = Sayings(writers, self._say)
        self._identifiers = identifiers
        self._merged = merged
        self._people = people
        self._numbers: BoundedCache[Hashable, Numbers] = BoundedCache(MAX_KEPT)

    def record(self, found: Iterable[Found], reading: Reading) -> PatientRecord:
        """Return what the segments at hand say of the patient with these identities."""
        numbers = self._numbered(reading)
        reading.warnings += numbers.warnings
        changes: list[ElementChange] = []
        stand_in = self._one_of_several(reading)
        for said in self._sayings.said(reading):
            changes += said.changes
            if said.warnings:
                reading.warnings += said.warnings
            stand_in = stand_in or said.stand_in
        return PatientRecord(tuple([one.identity for one in found]), numbers.identifiers, tuple(changes), stand_in)

    def merged_identifiers(self, reading: Reading) -> tuple[Any, ...]:
        """Return the FHIR identifiers that MRG lists."""
        return made_identifiers(self._merged.step, reading)

    def _numbered(self, reading: Reading) -> Numbers:
        """Return what the identifiers' fields say; beside their texts it depends on the day of the event."""
        identifiers = self._identifiers
        event = reading.event if identifiers.by_event else ""
        key = (reading.key(identifiers.sources), event, reading.today, reading.dialect)
        kept = self._numbers.get(key)
        if kept is not None:
            return kept
        before, reading.warnings = reading.warnings, []
        made = made_identifiers(identifiers.step, reading)
        numbers = Numbers(made, tuple(reading.warnings))
        reading.warnings = before
        return self._numbers.keep_if_again(key, numbers)

    def _say(self, writer: Writer, reading: Reading) -> Said:
        before, reading.warnings = reading.warnings, []
        changes: list[ElementChange] = []
        writer.write(reading, changes)
        said = Said(tuple(changes), tuple(reading.warnings), self._stands_in(changes))
        reading.warnings = before
        return said

    def _one_of_several(self, reading: Reading) -> bool:
        pid = reading.first.get("PID")
        return pid is not None and pid.field(24) == "Y"

    def _stands_in(self, changes: list[ElementChange]) -> bool:
        if not changes or changes[0].element not in {"name", "birthDate"}:
            return False
        return any(self._stand_in(change) for change in changes)

    def _stand_in(self, change: ElementChange) -> bool:
        """Say whether a name or birth date stands for nobody in particular."""
        if change.element == "name":
            return any(self._nobody(item) for item in change.items)
        return change.element == "birthDate" and any(item in self._people.birth_dates for item in change.items)

    def _nobody(self, name: dict[str, Any]) -> bool:
        texts = [part.upper() for part in (name.get("family"), *name.get("given", ())) if part]
        return any(text in self._people.names or text.startswith(self._people.beginnings) for text in texts)


def made_identifiers(step: Step, reading: Reading) -> tuple[Any, ...]:
    """Return the FHIR identifiers that a step makes, each system and value once."""
    made = step(None, reading)
    if made is None or made is NULL:
        return ()
    once: dict[tuple[str, str], Any] = {}
    for item in made:
        once.setdefault((item.get("system", ""), item["value"]), item)
    return tuple(once.values())
