"""The plan: what one message asks of a FHIR server, as an ordered list of interactions.

The mapping makes plans and delivery carries them out; neither knows the other. A plan is pure data: the same
message, mapping version and tables give the same plan.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

Json = Any


class Identity(NamedTuple):
    """An identifier that stands for one person at one authority: FHIR system and value."""

    system: str
    value: str


@dataclass(frozen=True, slots=True)
class ElementChange:
    """What one source says of one slice of one element.

    An element on which the message has no information has no change at all. `items` empty: the message deletes what
    its source owns there. `element` is a name at the root of the resource (`name`, `birthDate`, `extension`);
    `slice` names the part of a list the change speaks for (`PID-13`, or an extension's URL), and is the element
    itself where the element is no list. `many`: the element is a list. Extensions are always lists.
    """

    element: str
    slice: str
    items: tuple[Json, ...]
    many: bool


@dataclass(frozen=True, slots=True)
class PatientRecord:
    """What one message says of one patient.

    `identities`: the preferred one first; each is a key by which the patient is found. `identifiers`: whole FHIR
    Identifiers, identities and others (SSN, licence), which the record must carry; they only grow. `changes`: the
    other elements. `placeholder`: name or birth date is a stand-in (BABY, UNKNOWN, 1900-01-01) or PID-24 is Y, so
    that the demographics must never be a criterion.
    """

    identities: tuple[Identity, ...]
    identifiers: tuple[Json, ...]
    changes: tuple[ElementChange, ...]
    placeholder: bool


@dataclass(frozen=True, slots=True)
class Upsert:
    """Create the patient if unknown, else update it with the changes.

    `create` false: a patient who is unknown is held, not made. `reactivate`: set a record active again that an A29
    made inactive. `inactivate`: the event deletes the person's record (A29).
    """

    patient: PatientRecord
    create: bool = True
    reactivate: bool = False
    inactivate: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge the source's record into the survivor's ($merge).

    `source` and `target` are the pair of identities to merge; `sources` all identities of the merged side, with
    `source_identifiers` their FHIR form. `survivor` describes the surviving patient: its identities, and demographics
    which serve only where the survivor has to be created.
    """

    source: Identity
    target: Identity
    sources: tuple[Identity, ...]
    source_identifiers: tuple[Json, ...]
    survivor: PatientRecord


Interaction = Upsert | Merge


@dataclass(frozen=True, slots=True)
class Plan:
    """All that one message asks of one destination, in order.

    `event` is the trigger event, `source` the sender as `MSH-3|MSH-4`, `event_at` EVN-2 or else MSH-7 (aware; None
    where the message has neither), `event_precision` its precision in characters of the DTM (8 = day, 14 = second).
    `warnings` are reason codes with a place (`bad-value PID-33`), never values.
    """

    event: str
    source: str
    event_at: datetime | None
    event_precision: int
    interactions: tuple[Interaction, ...]
    warnings: tuple[str, ...] = ()
