"""From segments to a resource other than the Patient: identity, changes, status, references, start of a visit.

As with the Patient, the changes of a slice depend on the text of its fields alone, and are cached.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from engine.fhir.period import REVERSED, without_reversed
from engine.fhir.plan import Admission, ElementChange, Identity, Needed, ResourceRecord, StatusMove
from engine.hl7.leaf import Null
from engine.mapping.files.reference import ReferenceElement
from engine.mapping.language.expression import parse_path
from engine.mapping.language.identifier import Authority, Identifiers
from engine.mapping.language.node import Step
from engine.mapping.language.reading import Cells, MessageReading
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import Compiler
from engine.mapping.resource.slice_cache import SliceReader
from engine.mapping.resource.status import StatusTable

ADMITTED: Final = "admitted"
OF_ADMISSION: Final = "#admission"
VISIT: Final = "Encounter"
# The element with the start of a visit, by which servers find it (search parameter `date`).
BEGINNING: Final = "period.start"
TO_THE_MINUTE: Final = " | utc-minute"
TEXT: Final = ReferenceElement("string", many=False)


@dataclass(frozen=True, slots=True)
class AdmissionTime:
    """The step that makes the minute in which a visit began, and the `types` of numbers that it may have."""

    minute: Step
    types: tuple[str, ...]

    def read(self, reading: MessageReading, patient: Identity) -> Admission | None:
        """Return the start of the visit of a patient with this number; None if it is not known to the minute."""
        at = self.minute(None, reading)
        if not isinstance(at, str):
            return None
        return Admission(Identity(patient.system + OF_ADMISSION, f"{patient.value}@{at}Z"), at, self.types)


def admission_time(
    compiler: Compiler, scope: Scope, value: Mapping[str, Any], types: tuple[str, ...]
) -> AdmissionTime | None:
    """Compile the line `admitted` of an identity; None if there is none. Its faults are noted."""
    if not value.get(ADMITTED):
        return None
    at, text, file = scope.at(ADMITTED), str(value[ADMITTED]), scope.document.value
    field = text.removesuffix(TO_THE_MINUTE)
    if not text.endswith(TO_THE_MINUTE) or parse_path(field) is None:
        compiler.problem(at, f"found {text!r}", "expected a field to the minute: PV1-44 | utc-minute")
        return None
    if file["resource"] != VISIT:
        compiler.problem(at, f"{file['resource']} known by a time", "take the line away: only an Encounter is")
    made_of = str((file.get("elements") or {}).get(BEGINNING) or "").partition(" ")[0]
    if made_of != field:
        expected = f"map it from {field} as well: a visit is looked for by it"
        compiler.problem(at, f"{BEGINNING} made of {made_of or 'nothing'}", expected)
    return AdmissionTime(compiler.expression(text, at, TEXT).step, types)


def temporary(admission: Admission) -> tuple[Identity, dict[str, Any]]:
    """Return the temporary number of a visit, and the same as a FHIR Identifier."""
    system, value = admission.number
    return admission.number, {"use": "temp", "system": system, "value": value}


NO_AUTHORITY: Final = Authority("", "", "")
NUMBER_TYPE: Final = "http://terminology.hl7.org/CodeSystem/v2-0203"


class IdentityField(NamedTuple):
    """A field whose CX is the identity of a resource, and the type (table 0203) that it has as such, `kind` in FHIR.

    `joined`: the steps that make the parts of a number in several fields; segment and field are the first.
    """

    segment: str
    field: int
    type_: str
    kind: dict[str, Any]
    joined: tuple[Step, ...] = ()


class Numbers(NamedTuple):
    """The sources of the identity: all keys; else the first valued one of `others`.

    `listed`: fields whose numbers the resource carries without being found by them. `more`: further parts of an
    identifier. `admitted`: the start of a visit, which identifies it as well.
    """

    keys: tuple[IdentityField, ...]
    others: tuple[IdentityField, ...]
    listed: tuple[IdentityField, ...]
    merged: tuple[IdentityField, ...]
    more: Step | None = None
    admitted: AdmissionTime | None = None


@dataclass(frozen=True, slots=True)
class ResourceMapping:
    """One compiled resource file; `holder` is the element that refers to the patient."""

    type_: str
    holder: str
    numbers: Numbers
    slices: SliceReader
    table: StatusTable | None
    identifiers: Identifiers

    def status(self, reading: MessageReading) -> StatusMove | None:
        """Return the status move of the message; None if the type has no table."""
        return self.table.move(reading) if self.table else None

    def record(
        self, reading: MessageReading, local: str, patient: str, number: Identity | None = None
    ) -> tuple[ResourceRecord, dict[str, Needed]] | None:
        """Return the resource's record and the resources that it refers to, in the order of their references.

        `number`: the patient's, for a visit that its start identifies. None if nothing identifies the resource.
        """
        found = self._read(reading, self.numbers.keys)
        if not found:
            found = self._read(reading, self.numbers.others)[:1]
        admitted = self.numbers.admitted
        admission = admitted.read(reading, number) if admitted and number else None
        if not found and admission:
            found = (temporary(admission),)
        if not found:
            return None
        listed = self._read(reading, self.numbers.listed)
        identifiers = dict((*found, *listed))
        changes, made = self._changes(reading)
        record = ResourceRecord(
            self.type_,
            local,
            tuple(dict.fromkeys(identity for identity, _ in found)),
            tuple(identifiers.values()),
            changes,
            self.holder,
            patient,
            admission=admission,
        )
        return record, made

    def speaks_of(self, reading: MessageReading) -> bool:
        """True if a segment is there that could identify the resource."""
        return any(number.segment in reading.first for number in self.numbers.keys)

    def merged(self, reading: MessageReading) -> tuple[tuple[Identity, dict[str, Any]], ...]:
        """Return the numbers in MRG, of the types by which the segments at hand name the resource.

        Only a visit that is known by its account number (PID-18) uses MRG-3.
        """
        named = next((some for some in (self.numbers.keys, self.numbers.others) if self._read(reading, some)), ())
        types = {number.type_ for number in named if self._read(reading, (number,))}
        return self._read(reading, tuple(one for one in self.numbers.merged if one.type_ in types))

    def by_own(self, reading: MessageReading) -> bool:
        """True if the segments at hand name the resource by a number of its own type, not of a substitute type."""
        numbers = self.numbers
        own = {number.type_ for number in numbers.keys}
        return bool(self._read(reading, tuple(key for key in (*numbers.keys, *numbers.others) if key.type_ in own)))

    def _changes(self, reading: MessageReading) -> tuple[tuple[ElementChange, ...], dict[str, Needed]]:
        changes: list[ElementChange] = []
        referred: dict[str, Needed] = {}
        for one in self.slices.read(reading):
            changes += one.changes
            if one.warnings:
                reading.warnings += one.warnings
            if one.referred:
                referred.update(one.referred)
        kept, turned = without_reversed(changes)
        reading.warnings += [f"{REVERSED} {self.type_}.{name}" for name in turned]
        return kept, referred

    def _more(self, number: IdentityField, cells: Cells, reading: MessageReading) -> dict[str, Any]:
        if self.numbers.more is None:
            return {}
        reading.place = f"{number.segment}-{number.field}"
        more = self.numbers.more(cells, reading)
        return more if isinstance(more, dict) else {}

    def _read(
        self, reading: MessageReading, numbers: tuple[IdentityField, ...]
    ) -> tuple[tuple[Identity, dict[str, Any]], ...]:
        numbers_by_identity: dict[Identity, dict[str, Any]] = {}
        for number in numbers:
            if number.joined:
                numbers_by_identity |= self._joined(number, reading)
                continue
            segment = reading.first.get(number.segment)
            if segment is None or not segment.field(number.field):
                continue
            for cells in segment.cells(number.field):
                value = cells.first[0] if cells.first else ""
                if isinstance(value, Null) or not value:
                    continue
                if self.identifiers.placeholder(value):
                    reading.warnings.append(f"placeholder-identifier {number.segment}-{number.field}")
                    continue
                parts = [cells.leaf(4, part) for part in (1, 2, 3)]
                authority = Authority(*[part if isinstance(part, str) else "" for part in parts])
                system = self.identifiers.resource_system(authority, number.type_, reading.facility)
                identity = Identity(system, value)
                if identity not in numbers_by_identity:
                    numbers_by_identity[identity] = {
                        "type": number.kind,
                        "system": system,
                        "value": value,
                        **self._more(number, cells, reading),
                    }
        return tuple(numbers_by_identity.items())

    def _joined(self, number: IdentityField, reading: MessageReading) -> dict[Identity, dict[str, Any]]:
        """Return the number made of several fields, in the sender's system of its type; empty if one is missing.

        A slash in a part is escaped, so that different numbers stay different.
        """
        parts = [step(None, reading) for step in number.joined]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            return {}
        if any(self.identifiers.placeholder(text) for text in texts):
            reading.warnings.append(f"placeholder-identifier {number.segment}-{number.field}")
            return {}
        system = self.identifiers.resource_system(NO_AUTHORITY, number.type_, reading.facility)
        value = "/".join(text.replace("%", "%25").replace("/", "%2F") for text in texts)
        return {Identity(system, value): {"type": number.kind, "system": system, "value": value}}
