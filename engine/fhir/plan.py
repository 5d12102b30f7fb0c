"""The plan: what one message asks of a FHIR server, as an ordered list of interactions.

The mapping makes plans and delivery carries them out; neither knows the other. A plan is pure data: the same
message, mapping version and tables give the same plan.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, NamedTuple

from engine.fhir.cached_property import CachedProperty
from engine.fhir.digest import digest
from engine.fhir.json import JsonObject

# A local name: `#encounter` in a value refers to a resource of the same plan.
LOCAL: Final = "#"


def local_names(value: Any) -> list[str]:
    """Return the local names that a value refers to, in order."""
    names: list[str] = []
    _add_names(value if isinstance(value, list | tuple) else (value,), names)
    return names


def _add_names(parts: Iterable[Any], names: list[str]) -> None:
    """Add the local names of values; texts, which most of them are, cost no call."""
    for part in parts:
        if isinstance(part, dict):
            reference = part.get("reference")
            if isinstance(reference, str) and reference.startswith(LOCAL):
                names.append(reference[1:])
            else:
                _add_names(part.values(), names)
        elif isinstance(part, list | tuple):
            _add_names(part, names)


class Identity(NamedTuple):
    """An identifier that stands for one person at one authority: FHIR system and value."""

    system: str
    value: str


class _ElementChange(NamedTuple):
    element: str
    slice: str
    items: tuple[Any, ...]
    many: bool


class ElementChange(_ElementChange):
    """What one source says of one slice of one element.

    An element on which the message has no information has no change at all. `items` empty: the message deletes what
    its source owns there. `element` is a name at the root of the resource (`name`, `birthDate`, `extension`), or one
    within a root element that is no list (`period.end`), so that each part has three states of its own; `slice` names
    the part of a list the change speaks for (`PID-13`, or an extension's URL), and is the element itself where the
    element is no list. `many`: the element is a list. Extensions are always lists.

    `resolved_as`: what its references stood for last, and the change that it was with them.
    """

    resolved_as: "tuple[tuple[str | None, ...], ElementChange] | None" = None

    @CachedProperty
    def marks(self) -> tuple[str, ...]:
        """The digests of the items; computed once for a change that many plans share."""
        return tuple([digest(item) for item in self.items])

    @CachedProperty
    def refers(self) -> tuple[str, ...]:
        """The local names that the items refer to, in order; computed once, too."""
        return tuple(local_names(self.items))


class PatientRecord(NamedTuple):
    """What one message says of one patient.

    `identities`: the preferred one first; each is a key by which the patient is found. `identifiers`: whole FHIR
    Identifiers, identities and others (SSN, licence), which the record must carry; they only grow. `changes`: the
    other elements. `placeholder`: name or birth date is a stand-in (BABY, UNKNOWN, 1900-01-01) or PID-24 is Y, so
    that the demographics must never be a criterion. `local` is the patient's name within the plan: what belongs to it
    refers to `#patient`.
    """

    identities: tuple[Identity, ...]
    identifiers: tuple[JsonObject, ...]
    changes: tuple[ElementChange, ...]
    placeholder: bool
    local: str = "patient"


class Upsert(NamedTuple):
    """Create the patient if unknown, else update it with the changes.

    `create` false: a patient who is unknown is held, not made, or with `ignore` left alone, together with all that
    belongs to it. `reactivate`: set a record active again that an A29 made inactive. `inactivate`: the event deletes
    the person's record (A29), and nothing else of it is said. `thin`: demographics serve only where the record has to
    be created (moves).
    """

    patient: PatientRecord
    create: bool = True
    reactivate: bool = False
    inactivate: bool = False
    ignore: bool = False
    thin: bool = False


class Merge(NamedTuple):
    """Merge the source's record into the survivor's ($merge).

    `source` and `target` are the pair of identities to merge; `sources` all identities of the merged side, with
    `source_identifiers` their FHIR form. `survivor` describes the surviving patient: its identities, and demographics
    which serve only where the survivor has to be created.
    """

    source: Identity
    target: Identity
    sources: tuple[Identity, ...]
    source_identifiers: tuple[JsonObject, ...]
    survivor: PatientRecord


class Rename(NamedTuple):
    """Change the numbers of one patient: old ones are kept as such, new ones added (A47).

    `old` and `new` are the identities that change, `retired` and `issued` all numbers that do, as FHIR Identifiers;
    those of `retired` say `use` old and, where the time is known, when their period ended. `patient` has the new
    numbers and those that stay; its demographics serve only where the record has to be created.
    """

    old: tuple[Identity, ...]
    new: tuple[Identity, ...]
    retired: tuple[JsonObject, ...]
    issued: tuple[JsonObject, ...]
    patient: PatientRecord


class Link(NamedTuple):
    """Let two records know of each other as one person's, without merging them (A24), or no longer (`undo`, A37).

    Demographics serve only where a record has to be created.
    """

    one: PatientRecord
    other: PatientRecord
    undo: bool = False


class Move(NamedTuple):
    """Let numbers go from one patient to another (A43): the charts stay two, and nothing else of them moves.

    `moving` are the identities that go, `numbers` all that do, as FHIR Identifiers. `source` are further identities of
    the patient whom they leave, empty where the message names none. `target` describes who gets them, by other
    identities than these; its demographics serve only where the record has to be created.
    """

    moving: tuple[Identity, ...]
    numbers: tuple[JsonObject, ...]
    source: tuple[Identity, ...]
    target: PatientRecord


class Admission(NamedTuple):
    """When a visit began (`at`: UTC, `2026-03-02T13:03`), and the temporary number that patient and time make of it.

    `types`: the types (table 0203) of the numbers that a visit may have instead.
    """

    number: Identity
    at: str
    types: tuple[str, ...]


class ResourceRecord(NamedTuple):
    """What one message says of one resource other than the Patient.

    `type` is its FHIR type. `local` is its name within the plan, unique there: a reference `#<local>` anywhere in
    `changes` refers to it, and delivery puts `<type>/<id>` there once it is resolved; what is referred to comes
    earlier in the plan. Identities, identifiers and changes are as of PatientRecord; identities are tried in order,
    the first one that the server knows wins. `retired`: identities that it had until now (a change of number): it is
    found by them, too, and they become `use` old. `holder`: the element that refers to the patient (`subject`,
    `patient`, `beneficiary`), empty for what belongs to no patient; `patient` is the local name of that patient. The
    holder is written by delivery, and is no change; one within a list (`participant.actor`) is a change, and is asked.
    `admission`: when the visit began, where it may go by that, too; its number is all that some visits have.
    """

    type: str
    local: str
    identities: tuple[Identity, ...]
    identifiers: tuple[JsonObject, ...]
    changes: tuple[ElementChange, ...]
    holder: str = ""
    patient: str = "patient"
    retired: tuple[Identity, ...] = ()
    admission: Admission | None = None


class LocationTrail(NamedTuple):
    """Which list of a resource keeps the places that it left: its slices of the present one and of the one before.

    `arrives`: the event says since when it is there, `leaves`: that it is there no more.
    """

    element: str
    here: str
    prior: str
    arrives: bool = False
    leaves: bool = False


class StatusMove(NamedTuple):
    """What an event makes of a status, seen from the one that is stored.

    `to`: the status afterwards, empty: a stored one stays. `created`: the status of a resource that this event makes.
    `only`: the stored statuses that it moves, any where empty. `never`: those that it does not move. Where it moves
    none and `otherwise` is a note, the delivery has that note and the resource is left as it is; else the status stays
    and the rest is updated. `reopens`: stored statuses after which the resource begins anew, flagged `visit-reused` or
    held (the channel's `visit_reuse`); an event that is older than the stored end (`period.end`) is no new beginning
    and moves nothing. `forgets`: single elements that are removed when it begins anew. `ended`: statuses in which
    nothing is `active` any more: parts of lists that are so become `completed` (Encounter.location). `histories`: pairs
    of an element and the list that keeps what it was before (`status`, `statusHistory`). `trail`: the list that keeps
    the places which were left.
    """

    to: str
    created: str
    only: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    reopens: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    forgets: tuple[str, ...] = ()
    otherwise: str = ""
    histories: tuple[tuple[str, str], ...] = ()
    element: str = "status"
    trail: LocationTrail | None = None


class Keep(NamedTuple):
    """Bring a resource other than the Patient to what the message says.

    A resource that is unknown is created; with `create` false it is left alone, and the delivery ends with `absent`
    (`nothing-to-cancel`). `late`: a flag for one that is created by an event that speaks of a known one. `overwrite`
    false: created where it is absent and otherwise only referred to (Practitioner, Location, Organization).
    `clears`: single elements that the event itself removes, from any source (A13: `period.end`). `moved_from`: the
    local name of the patient whom the resource may have belonged to until now (A45); of anybody else's, and of any
    other patient's without it, the delivery is held (`visit-of-another-patient`). `defaults`: elements that its type
    requires, as a new one has them where the message does not say; they are never removed. `revives`: elements
    that only a retirement writes: what this source wrote there goes again. `more`: it says more of a resource that
    comes earlier in the plan. `merges`: the resource of a retired identity may be another one, which follows in the
    plan; where only that one is known, it gets the number. `also_of`: the local name of a patient among whose
    resources it is looked for, too, so that another patient's is known and held. `grows`: lists in which what
    this source said before stays where it is not said again, but for what the plan speaks of otherwise.
    """

    record: ResourceRecord
    create: bool = True
    overwrite: bool = True
    status: StatusMove | None = None
    clears: tuple[str, ...] = ()
    late: str = ""
    absent: str = "nothing-to-cancel"
    moved_from: str = ""
    defaults: tuple[ElementChange, ...] = ()
    revives: tuple[str, ...] = ()
    more: bool = False
    merges: bool = False
    also_of: str = ""
    grows: tuple[str, ...] = ()


class Find(NamedTuple):
    """Find a resource by an identifier, to be referred to; it is never made nor changed.

    Where the server has none, what would refer to it is left out and the delivery noted `absent`. One of another
    patient than the record's is held.
    """

    record: ResourceRecord
    absent: str


Needed = Find | Keep
"""What a plan has because something else in it refers to it."""


class Retire(NamedTuple):
    """Take back what this source listed before and does not list any more.

    `type` and `segment` name the list, `within` whose it is: the local name of a patient or a visit. `listed`: the
    identities that the message lists now, whose Keeps follow in the plan, with their `marks`, which stay the same when
    the number changes of the one whose list it is. `deleted`: those that an action code (table 0206) deletes, with
    `deleted_marks`.
    `complete`: the list is all there is, so that what this source listed before goes, too; never
    what another source listed. `shortened`: of what it listed under a mark that is listed now, the rest goes (a text of
    fewer lines). `group`: what the list is remembered as belonging to, where that is no patient and no visit.
    `changes` and `clears` are what becomes of a resource that goes, as of Keep; `holder`
    and `patient` as of ResourceRecord.
    """

    type: str
    segment: str
    within: str
    listed: tuple[Identity, ...]
    deleted: tuple[Identity, ...]
    complete: bool
    changes: tuple[ElementChange, ...]
    clears: tuple[str, ...] = ()
    holder: str = ""
    patient: str = "patient"
    marks: tuple[str, ...] = ()
    deleted_marks: tuple[str, ...] = ()
    shortened: bool = False
    group: str = ""


class Attest(NamedTuple):
    """Say where what this message wrote comes from (Provenance): last in the plan, and only where it wrote anything.

    `id` is the resource's logical id: FHIR gives the type no identifier, so that its id is made of the message's. It is
    created where it is absent and never overwritten. `target` is the element that lists what was written, which
    delivery fills.
    """

    record: ResourceRecord
    id: str
    target: str


class Follow(NamedTuple):
    """Let the visits of an account go where it goes: to the account that it is merged into, or to its new patient.

    `record` is the account, which comes earlier in the plan. `gone`: the one that was merged into it, whose Keep
    follows; what this source wrote of it in the `element` of visits speaks of `record` then. `moved_from`: the local
    name of the patient whose visits of this account are its new patient's from now on (A44).
    """

    record: ResourceRecord
    element: str
    gone: ResourceRecord | None = None
    moved_from: str = ""


Interaction = Upsert | Merge | Rename | Link | Move | Find | Keep | Retire | Follow | Attest


class UnmappedCode(NamedTuple):
    """A table of the mapping that has no row for a code, and the field of the code; never the code."""

    table: str
    field: str


class Plan(NamedTuple):
    """All that one message asks of one destination, in order: the patient first, then what others refer to.

    `event` is the trigger event, `source` the sender as `MSH-3|MSH-4`, `event_at` EVN-2 or else MSH-7 (aware; None
    where the message has neither), `event_precision` its precision in characters of the DTM (8 = day, 14 = second).
    `warnings` are reason codes with a place (`bad-value PID-33`), never values; `unmapped` names the tables
    of the `unmapped-code` warnings.
    """

    event: str
    source: str
    event_at: datetime | None
    event_precision: int
    interactions: tuple[Interaction, ...]
    warnings: tuple[str, ...] = ()
    unmapped: tuple[UnmappedCode, ...] = ()
