"""What a mapping makes of one message, as plain JSON that people and test cases read."""

from collections.abc import Iterable
from typing import Any

from engine.errors import MappingError
from engine.fhir.changes import created
from engine.fhir.plan import (
    Attest,
    ElementChange,
    Follow,
    Interaction,
    Keep,
    Link,
    Merge,
    Move,
    PatientRecord,
    Rename,
    Retire,
)
from engine.hl7.message import Message
from engine.mapping.compile import Mapping
from engine.mapping.files.reference import elements
from engine.mapping.subject.subject import Action, lane_key

Json = dict[str, Any]


def outcome(mapping: Mapping, message: Message) -> Json:
    """Return subject and plan of a message.

    `error` stands in place of the plan where the message cannot be mapped; without interactions there is only what
    intake judged.
    """
    subject = mapping.identify(message)
    found: Json = {
        "rule": subject.rule,
        "action": subject.action.value,
        "patients": [[lane_key(identity) for identity in group] for group in subject.patients],
        "findings": [
            f"{finding.code.value} {finding.reason} {' '.join(finding.locations)}" for finding in subject.findings
        ],
        "flags": list(subject.flags),
    }
    if subject.visit:
        found["visit"] = subject.visit
    if subject.event_at is not None:
        found["event_at"] = subject.event_at.isoformat()
    if subject.action is not Action.DELIVER:
        return found
    try:
        plan = mapping.plan(message)
    except MappingError as error:
        return {**found, "error": f"{error.reason} {error.location}".strip()}
    found["warnings"] = list(plan.warnings)
    found["interactions"] = [_interaction(one) for one in plan.interactions]
    return found


def patient(record: PatientRecord) -> Json:
    """Return the Patient that a record makes where there is none yet."""
    body: Json = {"resourceType": "Patient"}
    if record.identifiers:
        body["identifier"] = list(record.identifiers)
    return {**body, **created(record.changes).body}


def resource(keep: Keep) -> Json:
    """Return the resource that a Keep makes where there is none yet, with references as they stand in the plan."""
    record, move = keep.record, keep.status
    body: Json = {"resourceType": record.type, "identifier": list(record.identifiers)}
    if move is not None:
        body[move.element] = move.created
    if record.holder:
        reference = {"reference": f"#{record.patient}"}
        body[record.holder] = [reference] if elements()[record.type][record.holder].many else reference
    return {**body, **created(keep.defaults).body, **created(record.changes).body}


def _kept(keep: Keep) -> Json:
    record, move = keep.record, keep.status
    found: Json = {
        "keep": record.local,
        "if_absent": (f"create, flagged {keep.late}" if keep.late else "create") if keep.create else keep.absent,
        "identities": [lane_key(identity) for identity in record.identities],
    }
    if move is not None:
        lists = {name: sorted(getattr(move, name)) for name in ("only", "never", "reopens")}
        found["status"] = {"to": move.to, "new": move.created, **{name: one for name, one in lists.items() if one}}
    if keep.clears:
        found["clears"] = list(keep.clears)
    if record.retired:
        found["retired"] = [lane_key(identity) for identity in record.retired]
    if keep.moved_from:
        found["moved_from"] = keep.moved_from
    return {**found, **_slices(record.changes), "resource": resource(keep)}


def _slices(changes: Iterable[ElementChange]) -> Json:
    told = list(changes)
    return {
        "slices": [f"{change.element} {change.slice}" for change in told if change.items],
        "deletes": [f"{change.element} {change.slice}" for change in told if not change.items],
    }


def _retired(one: Retire) -> Json:
    return {
        "retire": f"{one.type} {one.segment}",
        "within": one.within,
        "list": "snapshot" if one.complete else "additive",
        "listed": len(one.listed),
        "deleted": [lane_key(identity) for identity in one.deleted],
        "retired": {**created(one.changes).body, **dict.fromkeys(one.clears)},
    }


def origin(one: Attest) -> Json:
    """Return the resource that an Attest makes, with one reference for all that is written."""
    body = {"resourceType": one.record.type, "id": one.id, one.target: [{"reference": "#written"}]}
    return {**body, **created(one.record.changes).body}


def _interaction(one: Interaction) -> Json:
    if isinstance(one, Keep | Retire | Follow | Attest):
        return _beside(one)
    if isinstance(one, Link | Move):
        return _apart(one)
    if isinstance(one, Rename):
        return {
            "rename": [lane_key(identity) for identity in one.old],
            "to": [lane_key(identity) for identity in one.new],
            "retired": list(one.retired),
            **_record(one.patient),
        }
    if isinstance(one, Merge):
        return {
            "merge": lane_key(one.source),
            "into": lane_key(one.target),
            "sources": [lane_key(identity) for identity in one.sources],
            "source_identifiers": list(one.source_identifiers),
            **_record(one.survivor),
        }
    return {
        "upsert": "inactivate" if one.inactivate else "create or update" if one.create else "update only",
        "reactivate": one.reactivate,
        **_record(one.patient),
    }


def _beside(one: Keep | Retire | Follow | Attest) -> Json:
    if isinstance(one, Keep):
        return _kept(one)
    if isinstance(one, Retire):
        return _retired(one)
    if isinstance(one, Attest):
        return {"attest": one.record.local, "resource": origin(one)}
    whose = one.gone.local if one.gone else one.moved_from
    return {"follow": f"{one.element} of {whose}", "to": one.record.local}


def _apart(one: Link | Move) -> Json:
    if isinstance(one, Link):
        return {
            "unlink" if one.undo else "link": lane_key(one.one.identities[0]),
            "and": lane_key(one.other.identities[0]),
            **_record(one.other),
        }
    return {
        "move": [lane_key(identity) for identity in one.moving],
        "from": [lane_key(identity) for identity in one.source],
        "numbers": list(one.numbers),
        **_record(one.target),
    }


def _record(record: PatientRecord) -> Json:
    return {
        "identities": [lane_key(identity) for identity in record.identities],
        "stand_in": record.placeholder,
        **_slices(record.changes),
        "patient": patient(record),
    }
