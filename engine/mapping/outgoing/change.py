"""What goes into an outgoing mapping and comes out of it: the change, the destination's setting, the message."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from engine.fhir.json import JsonObject

DEFAULT_VERSION: Final = "2.5.1"
DEFAULT_CHARACTER_SET: Final = "UNICODE UTF-8"


class ChangeKind(StrEnum):
    """What happened to a patient or a visit."""

    PATIENT_CREATED = "patient-created"
    PATIENT_UPDATED = "patient-updated"
    PATIENT_MERGED = "patient-merged"
    PATIENT_DELETED = "patient-deleted"
    VISIT_PLANNED = "visit-planned"
    VISIT_STARTED = "visit-started"
    VISIT_MOVED = "visit-moved"
    VISIT_ENDED = "visit-ended"
    VISIT_UPDATED = "visit-updated"
    VISIT_PLAN_CANCELLED = "visit-plan-cancelled"
    VISIT_CANCELLED = "visit-cancelled"
    VISIT_DELETED = "visit-deleted"

    @property
    def of_visit(self) -> bool:
        """Whether it is of an Encounter."""
        return self.value.startswith("visit-")


@dataclass(frozen=True, slots=True)
class FhirChange:
    """One change: its kind, the patient, the visit of a change of a visit, the patient who is merged away.

    `resources`: what the resources refer to, by the reference as they write it (`Practitioner/7`); what is missing
    there is noted and left out. `at`: when it took place, None if nobody knows.
    """

    kind: ChangeKind
    patient: JsonObject
    encounter: JsonObject | None = None
    merged: JsonObject | None = None
    resources: Mapping[str, JsonObject] = field(default_factory=dict)
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OutgoingSetting:
    """How one destination wants its messages.

    `character_set`: a name of table 0211, which MSH-18 says. `authorities` and `base_uri` are those of the channel
    that reads such numbers, and are read backwards here.
    """

    version: str = DEFAULT_VERSION
    character_set: str = DEFAULT_CHARACTER_SET
    sending_application: str = ""
    sending_facility: str = ""
    receiving_application: str = ""
    receiving_facility: str = ""
    processing_id: str = "P"
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    authorities: Mapping[str, str] = field(default_factory=dict)
    base_uri: str = "urn:adt-engine:authority:"


class AdtMessage(NamedTuple):
    """One message; `notes` say what of the change it leaves out (`version-left-out PID-39`, `unmapped-code PID-16`)."""

    raw: bytes
    event: str
    control_id: str
    notes: tuple[str, ...]
    hash: str


class NothingToSend(NamedTuple):
    """Why a change makes no message, as a code."""

    reason: str


class TracedField(NamedTuple):
    """What one rule made of one field, for people: `place` in the message, file, line, rule, the FHIR value, text."""

    place: str
    file: str
    line: int
    rule: str
    found: tuple[Any, ...]
    made: Any
