"""The outcome of a mapping for one message, as plain JSON for people and test cases."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from engine.errors import MappingError
from engine.fhir.changes import created
from engine.fhir.json import JsonObject
from engine.fhir.patient_compartment import holding
from engine.fhir.plan import (
    Attest,
    ElementChange,
    Find,
    Follow,
    Identity,
    Keep,
    Link,
    Merge,
    Move,
    PatientRecord,
    Rename,
    Retire,
    Upsert,
)
from engine.hl7.message import Message
from engine.mapping.compile import Mapping
from engine.mapping.subject.subject import Disposition, lane_key


def outcome(mapping: Mapping, message: Message) -> JsonObject:
    """Return subject and plan of a message.

    `error` replaces the plan if the message cannot be mapped; without interactions there is only the subject.
    """
    subject = mapping.identify(message)
    result: JsonObject = {
        "rule": subject.rule,
        "action": subject.action.value,
        "patients": [_keys(group) for group in subject.patients],
        "findings": [f"{one.code.value} {one.reason} {' '.join(one.locations)}" for one in subject.findings],
        "flags": list(subject.flags),
    }
    if subject.filter is not None:
        result["filter"] = subject.filter._asdict()
    if subject.visit:
        result["visit"] = subject.visit
    if subject.event_at is not None:
        result["event_at"] = subject.event_at.isoformat()
    if subject.action is not Disposition.DELIVER:
        return result
    try:
        plan = mapping.plan(message)
    except MappingError as error:
        return {**result, "error": f"{error.reason} {error.location}".strip()}
    result["warnings"] = list(plan.warnings)
    result["interactions"] = [OF_TYPE[type(interaction)](interaction) for interaction in plan.interactions]
    return result


def patient(record: PatientRecord) -> JsonObject:
    """Return the Patient that a record creates."""
    body: JsonObject = {"resourceType": "Patient"}
    if record.identifiers:
        body["identifier"] = list(record.identifiers)
    return {**body, **created(record.changes).body}


def resource(keep: Keep) -> JsonObject:
    """Return the resource that a Keep creates, with the references of the plan."""
    record, move = keep.record, keep.status
    body: JsonObject = {"resourceType": record.type, "identifier": list(record.identifiers)}
    if move is not None:
        body[move.element] = move.created
    body |= holding(record.type, record.holder, f"#{record.patient}")
    return {**body, **created(keep.defaults).body, **created(record.changes).body}


def _kept(keep: Keep) -> JsonObject:
    record, move = keep.record, keep.status
    result: JsonObject = {
        "keep": record.local,
        "if_absent": (f"create, flagged {keep.late}" if keep.late else "create") if keep.create else keep.absent,
        "identities": _keys(record.identities),
    }
    if record.admission is not None:
        result["admitted"] = f"{record.admission.at}Z"
    if move is not None:
        lists = {name: sorted(getattr(move, name)) for name in ("only", "never", "reopens")}
        result["status"] = {"to": move.to, "new": move.created, **{name: one for name, one in lists.items() if one}}
    if keep.clears:
        result["clears"] = list(keep.clears)
    if keep.grows:
        result["grows"] = list(keep.grows)
    if record.retired:
        result["retired"] = _keys(record.retired)
    if keep.moved_from:
        result["moved_from"] = keep.moved_from
    return {**result, **_slices(record.changes), "resource": resource(keep)}


def _slices(changes: Iterable[ElementChange]) -> JsonObject:
    named = [(f"{change.element} {change.slice}", change.items) for change in changes]
    return {"slices": [name for name, items in named if items], "deletes": [name for name, items in named if not items]}


def _retired(one: Retire) -> JsonObject:
    return {
        "retire": f"{one.type} {one.segment}",
        "within": one.within,
        "list": "snapshot" if one.complete else "additive",
        **({"group": one.group} if one.group else {}),
        "listed": len(one.listed),
        "deleted": _keys(one.deleted),
        "retired": {**created(one.changes).body, **dict.fromkeys(one.clears)},
    }


def origin(one: Attest) -> JsonObject:
    """Return the resource that an Attest creates, with one reference for all that is written."""
    body = {"resourceType": one.record.type, "id": one.id, one.target: [{"reference": "#written"}]}
    return {**body, **created(one.record.changes).body}


def _upserted(one: Upsert) -> JsonObject:
    what = "inactivate" if one.inactivate else "create or update" if one.create else "update only"
    return {"upsert": what, "reactivate": one.reactivate, **_record(one.patient)}


def _merged(one: Merge) -> JsonObject:
    return {
        "merge": lane_key(one.source),
        "into": lane_key(one.target),
        "sources": _keys(one.sources),
        "source_identifiers": list(one.source_identifiers),
        **_record(one.survivor),
    }


def _renamed(one: Rename) -> JsonObject:
    return {"rename": _keys(one.old), "to": _keys(one.new), "retired": list(one.retired), **_record(one.patient)}


def _linked(one: Link) -> JsonObject:
    first, other = lane_key(one.one.identities[0]), lane_key(one.other.identities[0])
    return {"unlink" if one.undo else "link": first, "and": other, **_record(one.other)}


def _moved(one: Move) -> JsonObject:
    return {"move": _keys(one.moving), "from": _keys(one.source), "numbers": list(one.numbers), **_record(one.target)}


def _followed(one: Follow) -> JsonObject:
    return {"follow": f"{one.element} of {one.gone.local if one.gone else one.moved_from}", "to": one.record.local}


def _search(one: Find) -> JsonObject:
    return {"find": one.record.local, "if_absent": one.absent, "identities": _keys(one.record.identities)}


def _attested(one: Attest) -> JsonObject:
    return {"attest": one.record.local, "resource": origin(one)}


def _keys(identities: Iterable[Identity]) -> list[str]:
    return [lane_key(identity) for identity in identities]


def _record(record: PatientRecord) -> JsonObject:
    return {
        "identities": _keys(record.identities),
        "stand_in": record.placeholder,
        **_slices(record.changes),
        "patient": patient(record),
    }


OF_TYPE: Final[dict[type, Callable[[Any], JsonObject]]] = {
    Upsert: _upserted, Merge: _merged, Rename: _renamed, Link: _linked, Move: _moved, Keep: _kept, Retire: _retired,
    Follow: _followed, Attest: _attested, Find: _search,
}  # fmt: skip
"""What is shown of each type of interaction."""
