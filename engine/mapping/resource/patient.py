"""From segments to patient records: identities, identifiers, changes, and whether they are a stand-in's.

The changes of a slice depend on the text of its fields alone (and on the message's encoding and time), so they are
cached. The values of a plan are therefore shared and must not be changed in place.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from engine.fhir.changes import DEFAULT
from engine.fhir.plan import ElementChange, Identity, PatientRecord
from engine.mapping.language.identifier import MessageIdentifier
from engine.mapping.language.reading import MessageReading
from engine.mapping.resource.resource import NUMBER_TYPE
from engine.mapping.resource.slice_cache import Memo, SliceReader
from engine.mapping.resource.slice_writer import IdentifierList, SliceChanges, SliceWriter
from engine.mapping.subject.events import People


class PatientMapping:
    """The compiled resource file of the patient; `new`: what it has where neither message nor record says it."""

    def __init__(
        self,
        writers: tuple[SliceWriter, ...],
        identifiers: IdentifierList,
        merged: IdentifierList,
        people: People,
        named: AbstractSet[str] = frozenset(),
        new: SliceWriter | None = None,
    ) -> None:
        self._slices = SliceReader(writers, self._read)
        self._identifiers = Memo(identifiers.depends, identifiers.read)
        self._merged = merged
        self._people = people
        self._named = named
        self._new = Memo(new.depends, lambda reading: new.read(reading.apart()).changes) if new is not None else None

    def record(self, found: Iterable[MessageIdentifier], reading: MessageReading, suffix: str = "") -> PatientRecord:
        """Return the record of the patient with these identities; `suffix` ends its local name."""
        identifiers, warnings = self._identifiers.of(reading)
        reading.warnings += warnings
        found = tuple(found)
        identifiers = (*identifiers, *_not_carried(found, identifiers, self._named))
        changes: list[ElementChange] = []
        stand_in = self._one_of_several(reading)
        for one in self._slices.read(reading):
            changes += one.changes
            if one.warnings:
                reading.warnings += one.warnings
            stand_in = stand_in or one.stand_in
        if self._new is not None:
            said = {change.element for change in changes if change.items}
            changes += [
                change._replace(slice=f"{change.element}{DEFAULT}")
                for change in self._new.of(reading)
                if change.items and said.isdisjoint((change.element, change.element.removeprefix("_")))
            ]
        record = PatientRecord(tuple([one.identity for one in found]), identifiers, tuple(changes), stand_in)
        return record._replace(local=record.local + suffix) if suffix else record

    def merged_identifiers(
        self, reading: MessageReading, as_sent: AbstractSet[Identity] = frozenset()
    ) -> tuple[Any, ...]:
        """Return the FHIR identifiers that MRG lists; those of `as_sent` as it spells them."""
        identifiers, warnings = self._merged.read(reading, as_sent)
        reading.warnings += warnings
        return identifiers

    def _read(self, writer: SliceWriter, reading: MessageReading) -> SliceChanges:
        found = writer.read(reading)
        return found._replace(stand_in=True) if self._stands_in(found.changes) else found

    def _one_of_several(self, reading: MessageReading) -> bool:
        pid = reading.first.get("PID")
        return pid is not None and pid.field(24) == "Y"

    def _stands_in(self, changes: Sequence[ElementChange]) -> bool:
        """True if a name or the birth date is a stand-in."""
        element = changes[0].element if changes else ""
        if element == "birthDate":
            return not self._people.birth_dates.isdisjoint(changes[0].items)
        return element == "name" and any(map(self._nobody, changes[0].items))

    def _nobody(self, name: dict[str, Any]) -> bool:
        texts = [part.upper() for part in (name.get("family"), *name.get("given", ())) if part]
        return any(text in self._people.names or text.startswith(self._people.beginnings) for text in texts)


def _not_carried(found: Sequence[MessageIdentifier], identifiers: Sequence[Any], named: AbstractSet[str]) -> list[Any]:
    """Return identities of named fields for which the file makes no identifier.

    A record is found by its identifiers: without these, the next message would create it again.
    """
    further = [one for one in found if one.place in named] if named else []
    carried = {(identifier.get("system"), identifier.get("value")) for identifier in identifiers} if further else set()
    return [
        {"type": {"coding": [{"system": NUMBER_TYPE, "code": one.type_}]}, **one.identity._asdict()}
        for one in further
        if one.identity not in carried
    ]
