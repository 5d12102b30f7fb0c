"""The plan of one message: an ordered list of interactions with a FHIR server, and the references between them.

The mapping makes plans and delivery carries them out; neither knows the other. A plan is pure data: the same
message, mapping version and tables give the same plan.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from engine.errors import HeldDeliveryError
from engine.fhir.cached_property import CachedProperty
from engine.fhir.json import JsonObject, digest

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
    """An identifier of one person at one authority: FHIR system and value."""

    system: str
    value: str


class _ElementChange(NamedTuple):
    element: str
    slice: str
    items: tuple[Any, ...]
    many: bool


class ElementChange(_ElementChange):
    """The change of one slice of one element by one source.

    An element without information in the message has no change. `items` empty: the message deletes what its source
    owns there. `element` is a name at the root of the resource (`name`, `birthDate`, `extension`), or one within a
    single root element (`period.end`), so that each part has three states of its own; `slice` names the changed part
    of a list (`PID-13`, or an extension's URL), and is the element itself for a single element. `many`: the element is
    a list. Extensions are always lists.

    `resolved_as`: the last values of its references, and the change with them.
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
    """The patient of one message.

    `identities`: the preferred one first; each is a key by which the patient is found. `identifiers`: whole FHIR
    Identifiers, identities and others (SSN, licence), which the record must carry; they only grow. `changes`: the
    other elements. `placeholder`: name or birth date is a stand-in (BABY, UNKNOWN, 1900-01-01) or PID-24 is Y, so
    that the demographics must never be a criterion. `local` is the patient's name within the plan: its resources
    refer to `#patient`.
    """

    identities: tuple[Identity, ...]
    identifiers: tuple[JsonObject, ...]
    changes: tuple[ElementChange, ...]
    placeholder: bool
    local: str = "patient"


class Upsert(NamedTuple):
    """Create the patient if unknown, else update it with the changes.

    `create` false: an unknown patient is held, not created, or with `ignore` left alone, together with all of its
    resources. `reactivate`: set a record active again that an A29 made inactive. `inactivate`: the event deletes the
    person's record (A29), and has no other content. `thin`: demographics are used only if the record has to be created
    (moves).
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
    `source_identifiers` their FHIR form. `survivor` is the surviving patient: its identities, and demographics
    which are used only if the survivor has to be created.
    """

    source: Identity
    target: Identity
    sources: tuple[Identity, ...]
    source_identifiers: tuple[JsonObject, ...]
    survivor: PatientRecord


class Rename(NamedTuple):
    """Change the numbers of one patient: old ones are kept as such, new ones added (A47).

    `old` and `new` are the changed identities, `retired` and `issued` all changed numbers, as FHIR Identifiers; those
    of `retired` have `use` old and, if known, the end of their period. `patient` has the new numbers and those that
    stay; its demographics are used only if the record has to be created.
    """

    old: tuple[Identity, ...]
    new: tuple[Identity, ...]
    retired: tuple[JsonObject, ...]
    issued: tuple[JsonObject, ...]
    patient: PatientRecord


class Link(NamedTuple):
    """Link two records as one person's, without merging them (A24), or remove the link (`undo`, A37).

    Demographics are used only if a record has to be created.
    """

    one: PatientRecord
    other: PatientRecord
    undo: bool = False


class Move(NamedTuple):
    """Move numbers from one patient to another (A43): both charts stay, and nothing else of them moves.

    `moving` are the moved identities, `numbers` all moved numbers, as FHIR Identifiers. `source` are further
    identities of the patient whom they leave, empty if the message names none. `target` is the receiving patient, by
    other identities than these; its demographics are used only if the record has to be created.
    """

    moving: tuple[Identity, ...]
    numbers: tuple[JsonObject, ...]
    source: tuple[Identity, ...]
    target: PatientRecord


class Admission(NamedTuple):
    """The start of a visit (`at`: UTC, `2026-03-02T13:03`), and the temporary number made of patient and time.

    `types`: the types (table 0203) of the numbers that a visit may have instead.
    """

    number: Identity
    at: str
    types: tuple[str, ...]


class ResourceRecord(NamedTuple):
    """One resource of a message other than the Patient.

    `type` is its FHIR type. `local` is its name within the plan, unique there: a reference `#<local>` anywhere in
    `changes` refers to it, and delivery puts `<type>/<id>` there once it is resolved; what is referred to comes
    earlier in the plan. Identities, identifiers and changes are as of PatientRecord; identities are tried in order,
    the first one that the server knows wins. `retired`: identities that it had until now (a change of number): it is
    found by them, too, and they become `use` old. `holder`: the element that refers to the patient (`subject`,
    `patient`, `beneficiary`), empty without a patient; `patient` is the local name of that patient. Delivery writes
    the holder, which is not a change; a holder within a list (`participant.actor`) is a change, which delivery checks.
    `admission`: the start of a visit that may be found by it; some visits have no other number.
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
    """The list of a resource's places: the slices of the current and of the prior one.

    `arrives`: the event has the time of arrival, `leaves`: the event is a departure.
    """

    element: str
    here: str
    prior: str
    arrives: bool = False
    leaves: bool = False


class StatusMove(NamedTuple):
    """An event's move of a stored status.

    `to`: the status afterwards, empty: a stored one stays. `created`: the status of a resource that this event makes.
    `only`: the stored statuses that it moves, any if empty. `never`: those that it does not move. If it does not move
    the status and `otherwise` is a note, the delivery has that note and the resource is left as it is; else the status
    stays and the rest is updated. `reopens`: stored statuses after which the resource begins anew, flagged
    `visit-reused` or held (the channel's `visit_reuse`); an event older than the stored end (`period.end`) does not
    begin anew and moves nothing. `forgets`: single elements that are removed when it begins anew. `ended`: statuses
    in which `active` parts of lists become `completed` (Encounter.location). `histories`: pairs of an element and the
    list of its former values (`status`, `statusHistory`). `trail`: the list of former places.
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
    """Create or update a resource other than the Patient.

    An unknown resource is created; with `create` false it is left alone, and the delivery ends with `absent`
    (`nothing-to-cancel`). `late`: a flag for one that is created by an event about a known one. `overwrite` false:
    created if absent and otherwise only referred to (Practitioner, Location, Organization).
    `clears`: single elements that the event itself removes, from any source (A13: `period.end`). `moved_from`: the
    local name of the resource's possible patient until now (A45); for any other patient's resource the delivery is
    held (`visit-of-another-patient`). `defaults`: elements that its type requires, for a new one without a value in
    the message; they are never removed. `revives`: elements that only a retirement writes: this source's values there
    are removed. `more`: it adds to a resource that comes earlier in the plan. `merges`: the resource of a retired
    identity may be another one, which follows in the plan; if only that one is known, it gets the number. `also_of`:
    the local name of a patient whose resources are searched, too, so that another patient's is known and held.
    `grows`: lists in which this source's earlier items stay if they are not repeated, except those that the plan
    changes otherwise.
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
    """Find a resource by an identifier, to be referred to; it is never created nor changed.

    If the server has none, references to it are left out and the delivery has the note `absent`. For a resource of
    another patient than the record's the delivery is held.
    """

    record: ResourceRecord
    absent: str


Needed = Find | Keep
"""What a plan has because something else in it refers to it."""


class Retire(NamedTuple):
    """Retire the resources that this source listed before and does not list any more.

    `type` and `segment` name the list, `within` its owner: the local name of a patient or a visit. `listed`: the
    identities of the message's list, whose Keeps follow in the plan, with their `marks`, which do not change with the
    owner's number. `deleted`: those that an action code (table 0206) deletes, with `deleted_marks`.
    `complete`: the list is a snapshot, so that this source's other earlier resources are retired, too; never another
    source's. `shortened`: of earlier resources under a mark that is listed now, the rest is retired (a text of fewer
    lines). `group`: the owner by which the list is remembered, if that is not a patient or a visit.
    `changes` and `clears` are the retirement of a resource, as of Keep; `holder` and `patient` as of ResourceRecord.
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
    """Write the Provenance of a message: last in the plan, and only if the message wrote anything.

    `id` is the resource's logical id, made of the message's, because FHIR gives the type no identifier. It is created
    if absent and never overwritten. `target` is the element that lists the written resources, which delivery fills.
    """

    record: ResourceRecord
    id: str
    target: str


class Follow(NamedTuple):
    """Move the visits of an account with it: to the account that it is merged into, or to its new patient.

    `record` is the account, which comes earlier in the plan. `gone`: the one that was merged into it, whose Keep
    follows; this source's references to it in the `element` of visits then name `record`. `moved_from`: the local
    name of the patient whose visits of this account belong to its new patient from now on (A44).
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
    """All interactions of one message with one destination, in order: the patient first, then by their references.

    `event` is the trigger event, `source` the sender as `MSH-3|MSH-4`, `event_at` EVN-2 or else MSH-7 (aware; None
    where the message has neither), `event_precision` its precision in characters of the DTM (8 = day, 14 = second).
    `warnings` are reason codes with a place (`bad-value PID-33`), never values; `unmapped` names the tables
    of the `unmapped-code` warnings. `originals`: each identity of a system whose numbers have a form
    (`normalise`), with its spelling in the message.
    """

    event: str
    source: str
    event_at: datetime | None
    event_precision: int
    interactions: tuple[Interaction, ...]
    warnings: tuple[str, ...] = ()
    unmapped: tuple[UnmappedCode, ...] = ()
    originals: tuple[tuple[Identity, Identity], ...] = ()


def resolved(changes: Iterable[ElementChange], references: Mapping[str, str]) -> tuple[ElementChange, ...]:
    """Return changes with every local reference replaced; the given ones are not altered.

    Raises HeldDeliveryError `unresolved-reference` for one that the plan does not have.
    """
    return tuple([_change(change, references) if change.refers else change for change in changes])


def _change(change: ElementChange, references: Mapping[str, str]) -> ElementChange:
    """Return a change with its references replaced; the same object while a shared change refers to the same."""
    targets = tuple([references.get(name) for name in change.refers])
    last = change.resolved_as
    if last is not None and last[0] == targets:
        return last[1]
    items = tuple([_value(item, references) for item in change.items])
    resolved_change = ElementChange(change.element, change.slice, items, change.many)
    change.resolved_as = targets, resolved_change
    return resolved_change


def _value(value: Any, references: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        reference = value.get("reference")
        if isinstance(reference, str) and reference.startswith(LOCAL):
            if reference[1:] not in references:
                raise HeldDeliveryError("unresolved-reference")
            return {**value, "reference": references[reference[1:]]}
        made = {name: _value(part, references) for name, part in value.items()}
        return value if all(made[name] is value[name] for name in value) else made
    if isinstance(value, list):
        items = [_value(part, references) for part in value]
        return value if all(one is other for one, other in zip(items, value, strict=True)) else items
    return value
