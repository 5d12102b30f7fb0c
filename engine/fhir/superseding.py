"""Whether one update of a patient says all that an earlier one says, so that the earlier one need not be written.

An absent field means no information in HL7 v2: a newer update without it would lose what the older one says of it. So
a newer plan supersedes an older one only where it writes every element, number and resource that the older one writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from engine.errors import HeldDeliveryError
from engine.fhir.changes import DOT, OTHER_CHOICE
from engine.fhir.patient import another_person, person_of
from engine.fhir.plan import (
    Attest,
    ElementChange,
    Find,
    Identity,
    Interaction,
    Keep,
    PatientRecord,
    Plan,
    Retire,
    StatusMove,
    Upsert,
    resolved,
)

# What a plan may consist of; one with a merge, a rename, a link or a move neither supersedes nor is superseded.
_UPDATES: Final = (Upsert, Keep, Find, Retire, Attest)

_Key = tuple[object, ...]


def supersedes(newer: Plan, older: Plan) -> bool:
    """True if carrying out `newer` alone leaves what carrying out `older` and then `newer` leaves.

    False wherever that is not certain. Three things may differ: the order of items within a list, the time at which a
    visit's class is said to have changed, and an item of another system that `older` repeats and `newer` does not.
    """
    same = (newer.event, newer.source, newer.originals) == (older.event, older.source, older.originals)
    if not same or not _in_time(newer, older):
        return False
    mine, theirs = _parts(older), _parts(newer)
    if mine is None or theirs is None:
        return False
    try:
        return all(key in theirs and _within(part, theirs[key]) for key, part in mine.items())
    except HeldDeliveryError:
        # A reference that the plan does not have holds its message.
        return False


def _in_time(newer: Plan, older: Plan) -> bool:
    """True if neither has a time of its event, or both in one precision, and the newer one's is not earlier."""
    if newer.event_at is None or older.event_at is None:
        return newer.event_at is older.event_at
    return newer.event_precision == older.event_precision and newer.event_at >= older.event_at


class _PlanPart(NamedTuple):
    """One interaction, and what the local names of its plan name."""

    interaction: Interaction
    names: Mapping[str, str]


def _parts(plan: Plan) -> dict[_Key, _PlanPart] | None:
    """Return the interactions of a plan by what they are about; None where two are about the same, or one does more.

    The Provenance is left out: a message that wrote nothing has none.
    """
    names = dict(_names(plan))
    parts: dict[_Key, _PlanPart] = {}
    for one in plan.interactions:
        if not isinstance(one, _UPDATES):
            return None
        if isinstance(one, Attest):
            continue
        key = _key(one, names)
        if not key or (key in parts and parts[key].interaction != one):
            return None
        parts[key] = _PlanPart(one, names)
    return parts


def _names(plan: Plan) -> Iterable[tuple[str, str]]:
    for one in plan.interactions:
        if isinstance(one, Upsert):
            yield one.patient.local, _numbered("Patient", one.patient.identities)
        elif isinstance(one, Keep | Find):
            yield one.record.local, _numbered(one.record.type, one.record.identities)


def _numbered(type_: str, identities: Sequence[Identity]) -> str:
    return f"{type_}/{' '.join(map('|'.join, identities))}"


def _key(one: Interaction, names: Mapping[str, str]) -> _Key:
    """Return what an interaction is about; empty where nothing says it."""
    if isinstance(one, Upsert):
        return ("Patient", one.patient.identities) if one.patient.identities else ()
    if isinstance(one, Retire):
        return "Retire", one.type, one.segment, names.get(one.within, one.within), one.group
    if isinstance(one, Keep | Find) and one.record.identities:
        more = one.record.local if isinstance(one, Keep) and one.more else ""
        return type(one).__name__, one.record.type, one.record.identities, more
    return ()


def _within(older: _PlanPart, newer: _PlanPart) -> bool:
    """True if a part of a newer plan says all that its part of an older one says."""
    mine, theirs = older.interaction, newer.interaction
    if isinstance(mine, Upsert) and isinstance(theirs, Upsert):
        return _is_same_upsert(mine, theirs) and _of_patient(mine.patient, theirs.patient)
    if isinstance(mine, Keep) and isinstance(theirs, Keep) and mine.overwrite:
        return _of_resource(mine, theirs, older.names, newer.names)
    # What is never overwritten stays as the first message made it, so that it has to be the same in both.
    return _plain(mine, older.names) == _plain(theirs, newer.names)


def _is_same_upsert(older: Upsert, newer: Upsert) -> bool:
    return older._replace(patient=newer.patient) == newer and not (newer.inactivate or newer.thin)


def _of_patient(older: PatientRecord, newer: PatientRecord) -> bool:
    same = (older.identities, older.placeholder, older.local) == (newer.identities, newer.placeholder, newer.local)
    if not same or another_person(person_of(older), person_of(newer)):
        return False
    return all(one in newer.identifiers for one in older.identifiers) and _contained(older.changes, newer.changes)


def _of_resource(older: Keep, newer: Keep, mine: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """True if a newer update of a resource says all of an older one's, and neither moves it to another state."""
    record = newer.record._replace(changes=older.record.changes, identifiers=older.record.identifiers)
    if newer._replace(record=record, defaults=older.defaults) != older:
        return False
    patient = mine.get(record.patient) == theirs.get(record.patient)
    if not patient or older.moved_from or older.merges or not _stays(older.status):
        return False
    changes, others = resolved(older.record.changes, mine), resolved(newer.record.changes, theirs)
    defaults = resolved(older.defaults, mine)
    if defaults != resolved(newer.defaults, theirs) or any(
        _says(changes, one) != _says(others, one) for one in defaults
    ):
        return False
    numbers = all(one in newer.record.identifiers for one in older.record.identifiers)
    return numbers and _contained(changes, others, _with_past(older))


def _stays(move: StatusMove | None) -> bool:
    """True if an event moves no stored status, and says no time at which a place was reached or left."""
    return move is None or not (move.to or (move.trail and (move.trail.arrives or move.trail.leaves)))


def _with_past(keep: Keep) -> frozenset[str]:
    """Return the elements of a resource that keep something of their earlier values."""
    move = keep.status
    trail = {move.trail.element} if move and move.trail else set()
    return frozenset({*keep.grows, *trail, *(name for name, _history in (move.histories if move else ()))})


def _says(changes: Iterable[ElementChange], default: ElementChange) -> bool:
    return any(one.items and one.element == default.element for one in changes)


def _contained(
    older: Iterable[ElementChange], newer: Iterable[ElementChange], alike: frozenset[str] = frozenset()
) -> bool:
    """True if newer changes write what older ones write, and delete what they delete.

    `alike`: elements whose outcome depends on what was there before, so that both must say the same.
    """
    said = {(one.element, one.slice): one for one in newer}
    return all(_covers(said.get((one.element, one.slice)), one, alike) for one in older)


def _covers(newer: ElementChange | None, older: ElementChange, alike: frozenset[str]) -> bool:
    if newer is None or newer.many != older.many:
        return False
    element = older.element
    if element in alike or element in OTHER_CHOICE or DOT in element:
        return newer.items == older.items
    # To write and then to delete is not to delete: what another system has there would stay.
    return bool(newer.items) == bool(older.items)


def _plain(one: Interaction, names: Mapping[str, str]) -> Interaction:
    """Return an interaction with what its local names name in their place."""
    if isinstance(one, Keep):
        changes = resolved(one.record.changes, names)
        return one._replace(record=one.record._replace(changes=changes), defaults=resolved(one.defaults, names))
    if isinstance(one, Find):
        return one._replace(record=one.record._replace(changes=resolved(one.record.changes, names)))
    return one
