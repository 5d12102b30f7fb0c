"""What changed of a resource: its version at hand against what was last sent of it; a pure function.

What only a server changes (`meta`, the narrative), and what a merge does to the records around it (the survivor's
links, the subject of a visit), is no change.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

import orjson

from engine.fhir.event import FhirEvent, local, moment_of
from engine.fhir.json import JsonObject, digest
from engine.mapping.outgoing.change import ChangeKind, NothingToSend

UNCHANGED: Final = NothingToSend("unchanged")
MERGED_AWAY: Final = NothingToSend("merged-away")
DELETED_ALREADY: Final = NothingToSend("deleted-already")

PLANNED: Final = "planned"
STARTED: Final = "started"
ENDED: Final = "ended"
CANCELLED: Final = "cancelled"
# Where a visit stands, by its status (FHIR R4, EncounterStatus); an unknown one stands nowhere.
PHASES: Final = {
    "planned": PLANNED,
    "arrived": STARTED,
    "triaged": STARTED,
    "in-progress": STARTED,
    "onleave": STARTED,
    "finished": ENDED,
    "cancelled": CANCELLED,
    "entered-in-error": CANCELLED,
}
# What a visit came to by entering a phase. Back from its end, or to a plan, it is updated.
ENTERED: Final = {
    (None, PLANNED): ChangeKind.VISIT_PLANNED,
    (None, STARTED): ChangeKind.VISIT_STARTED,
    (None, ENDED): ChangeKind.VISIT_ENDED,
    (None, CANCELLED): ChangeKind.VISIT_CANCELLED,
    (PLANNED, STARTED): ChangeKind.VISIT_STARTED,
    (PLANNED, ENDED): ChangeKind.VISIT_ENDED,
    (PLANNED, CANCELLED): ChangeKind.VISIT_PLAN_CANCELLED,
    (STARTED, ENDED): ChangeKind.VISIT_ENDED,
    (STARTED, CANCELLED): ChangeKind.VISIT_CANCELLED,
    (ENDED, CANCELLED): ChangeKind.VISIT_CANCELLED,
    (CANCELLED, STARTED): ChangeKind.VISIT_STARTED,
    (CANCELLED, PLANNED): ChangeKind.VISIT_PLANNED,
}
# Not compared: what every write changes, and what others than the patient's own data do to a record.
NOT_COMPARED: Final = {"Patient": ("meta", "text", "link"), "Encounter": ("meta", "text", "subject")}
# Of a visit's places, those where the patient is not, or not any more.
NOT_THERE: Final = frozenset({"planned", "reserved", "completed"})


@dataclass(frozen=True, slots=True)
class ResourceState:
    """What tells one change of a resource from another.

    `content` and `place` are digests; `replaced_by` and `subject` references. A deletion has nothing of that. `at`:
    when the server wrote it, empty where it does not say; that is no part of what changes.
    """

    deleted: bool = False
    content: str = ""
    replaced_by: str = ""
    status: str = ""
    place: str = ""
    subject: str = ""
    at: str = ""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the state that a text of `text` says."""
        return cls(**orjson.loads(text))

    @property
    def moment(self) -> datetime | None:
        """When the server wrote it; None where it does not say."""
        return moment_of(self.at)

    def says_same(self, other: "ResourceState") -> bool:
        """Say whether both are of one content, whenever that was written."""
        return replace(self, at="") == replace(other, at="")

    @property
    def text(self) -> str:
        """The state as it is kept."""
        return orjson.dumps({name: value for name in self.__slots__ if (value := getattr(self, name))}).decode()


def state_of(event: FhirEvent, base: str) -> ResourceState:
    """Return the state of a resource as an event of the server at a base URL shows it."""
    state = resource_state(event.resource, base) if event.resource is not None else ResourceState(deleted=True)
    return replace(state, at=event.at.isoformat()) if event.at is not None else state


def resource_state(resource: JsonObject, base: str) -> ResourceState:
    """Return the state of a Patient or an Encounter of the server at a base URL."""
    type_ = str(resource.get("resourceType"))
    content = digest({key: value for key, value in resource.items() if key not in NOT_COMPARED.get(type_, ())})
    if type_ == "Encounter":
        subject = local(str(_at(resource, "subject", "reference") or ""), base)
        status = str(resource.get("status") or "")
        return ResourceState(content=content, status=status, place=_place(resource), subject=subject)
    return ResourceState(content=content, replaced_by=replaced_by(resource, base))


def replaced_by(patient: JsonObject, base: str) -> str:
    """Return the record that a merge put in the place of one (`Patient/2`); '' where none of its server did."""
    for link in patient.get("link") or ():
        if isinstance(link, dict) and link.get("type") == "replaced-by":
            return local(str(_at(link, "other", "reference") or ""), base)
    return ""


def moved_with(state: ResourceState, subject: str) -> ResourceState:
    """Return the state of a visit whose subject was merged into another one: that it is the other's is no change."""
    return replace(state, subject=subject)


def detect(type_: str, now: ResourceState, before: ResourceState | None) -> ChangeKind | NothingToSend:
    """Return what changed of a resource; `before` None: nothing was sent of it, and it was not there before."""
    if type_ == "Encounter":
        return _of_visit(now, before)
    if now.deleted:
        return DELETED_ALREADY if before is not None and before.deleted else ChangeKind.PATIENT_DELETED
    known = None if before is None or before.deleted else before
    if now.replaced_by:
        same = known is not None and known.replaced_by == now.replaced_by
        return MERGED_AWAY if same else ChangeKind.PATIENT_MERGED
    if known is None:
        return ChangeKind.PATIENT_CREATED
    same = known.content == now.content and not known.replaced_by
    return UNCHANGED if same else ChangeKind.PATIENT_UPDATED


def _of_visit(now: ResourceState, before: ResourceState | None) -> ChangeKind | NothingToSend:
    if now.deleted:
        return DELETED_ALREADY if before is not None and before.deleted else ChangeKind.VISIT_DELETED
    known = None if before is None or before.deleted else before
    if known is not None and (known.content, known.subject) == (now.content, now.subject):
        return UNCHANGED
    was = PHASES.get(known.status) if known is not None else None
    entered = PHASES.get(now.status)
    if was != entered or known is None:
        return ENTERED.get((was, entered or ""), ChangeKind.VISIT_UPDATED)
    moved = entered == STARTED and known.place != now.place and bool(now.place)
    return ChangeKind.VISIT_MOVED if moved else ChangeKind.VISIT_UPDATED


def _place(visit: JsonObject) -> str:
    """Return the digest of where the patient is now; '' where nothing says it."""
    there = [
        str(_at(one, "location", "reference") or "")
        for one in visit.get("location") or ()
        if isinstance(one, dict) and one.get("status") not in NOT_THERE and not _at(one, "period", "end")
    ]
    return digest(sorted(there)) if there else ""


def _at(value: Any, *steps: str) -> Any:
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return value
