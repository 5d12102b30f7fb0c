"""From segments to patient records: identities, identifiers, changes, and whether they are a stand-in's.

What a slice says depends on the text of its fields alone (and on how the message writes and where it stands in time),
so it is worked out once and kept. The values of a plan are therefore shared: nobody changes them in place.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from engine.fhir.plan import ElementChange, PatientRecord
from engine.mapping.language.identifier import Found
from engine.mapping.language.reading import Reading
from engine.mapping.resource.slice_cache import SliceCache, Written
from engine.mapping.resource.slices import Identifiers, Said, Writer
from engine.mapping.subject.events import People


class PatientMapping:
    """The compiled resource file of the patient."""

    def __init__(
        self, writers: tuple[Writer, ...], identifiers: Identifiers, merged: Identifiers, people: People
    ) -> None:
        self._written = Written(writers, self._read)
        self._identifiers = identifiers
        self._merged = merged
        self._people = people
        self._numbers: SliceCache[tuple[tuple[Any, ...], list[str]]] = SliceCache()

    def record(self, found: Iterable[Found], reading: Reading) -> PatientRecord:
        """Return what the segments at hand say of the patient with these identities."""
        identifiers, warnings = self._numbered(reading)
        reading.warnings += warnings
        changes: list[ElementChange] = []
        stand_in = self._one_of_several(reading)
        for said in self._written.said(reading):
            changes += said.changes
            if said.warnings:
                reading.warnings += said.warnings
            stand_in = stand_in or said.stand_in
        return PatientRecord(tuple([one.identity for one in found]), identifiers, tuple(changes), stand_in)

    def merged_identifiers(self, reading: Reading) -> tuple[Any, ...]:
        """Return the FHIR identifiers that MRG lists."""
        identifiers, warnings = self._merged.read(reading)
        reading.warnings += warnings
        return identifiers

    def _numbered(self, reading: Reading) -> tuple[tuple[Any, ...], list[str]]:
        """Return what the identifiers' fields say; beside their texts it depends on the day of the event."""
        identifiers, (cache,) = self._identifiers, self._numbers.of(reading)
        key = (reading.key(identifiers.sources), reading.event if identifiers.by_event else "", reading.today)
        kept = cache.get(key)
        return cache.keep_if_again(key, identifiers.read(reading)) if kept is None else kept

    def _read(self, writer: Writer, reading: Reading) -> Said:
        said = writer.read(reading)
        return said._replace(stand_in=True) if self._stands_in(said.changes) else said

    def _one_of_several(self, reading: Reading) -> bool:
        pid = reading.first.get("PID")
        return pid is not None and pid.field(24) == "Y"

    def _stands_in(self, changes: Sequence[ElementChange]) -> bool:
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
