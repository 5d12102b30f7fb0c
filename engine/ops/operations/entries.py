"""Acts on single entries: replay, release, retry, discard; rehearse, edit, and resolve who a patient is.

    messages.replay    {"entry", "force", "destination"} -> {"destinations": 1}; a refused one is judged anew
    messages.release   {"entry", "force"} -> {"destinations": 1}
    messages.retry     {"entry"} -> {"destinations": 1}: what waits for its next try, or is held, is tried now
    messages.discard   {"entry", "reason"} -> {"runnable": 1}
    messages.rehearse  {"entry", "destination", and "message" or "set" as of edit} -> REHEARSAL: what a replay would do
                       at the server now; nothing is written anywhere
    messages.edit      {"entry", "message": whole text | "set": {"PID-5.1": "Quintero"}, "discard_original": false,
                       "reason", "force"} -> {"entry": the new one, "parent", "state", "differences": [EDIT],
                       "original": "held" | "waiting" | ..., "next_step": text or ""}
    messages.matches   {"entry", "destination"} -> {"entry", "destination", "reason", "identities": ["system|value"],
                       "matches": [{"patient": id, "active", "merged", "name", "birthDate", "gender",
                       "identifiers": ["system|value"], "carries": ["system|value"]}], "next_step": text, or "" where a
                       person must choose}
    messages.resolve   {"entry", "destination", "patient": id} -> {"destinations": 1}: chosen, then released

All need OPERATE. `destination` may be left out where there is only one that it can mean.

REHEARSAL: {"entry", "differences": [EDIT] (of an edit), "refused": {"reason", "findings": [text]} | null,
"destinations": [{"destination", "overtaken": false, "verdict": "delivered" | "held" | "rejected" | "retry", "reason",
"notes": [codes],
"calls": [{"method", "path", "headers": {...}, "body": JSON | null, "changes": true}],
"differences": [{"resource": "Patient/1", "path": "name[0].family", "before": JSON | null, "after": JSON | null}]}]}.
A resource that the plan would create is called `Patient/new-1`. `changes` is false for a preview.
EDIT: {"path": "PID-5.1", "before": text | null, "after": text | null}.
"""

from typing import Any, Final

from engine.deliver.patient.question import Question
from engine.errors import EditError, UsageError
from engine.fhir.patient import carries, current_numbers, person, replaced_by
from engine.hl7.edit import FieldChange
from engine.journal.entry import UNFINISHED
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.request import entry_in, text_in
from engine.pipeline.engine import Engine
from engine.pipeline.outbound.shadow import to_json
from engine.pipeline.repair import choosing, editing
from engine.pipeline.repair.dry_run import EntryDryRun, dry_run

MOST_REASON: Final = 1_000
NEXT_STEP: Final = "the original is unfinished and goes before it: release or discard it"
# By how many records are left to choose from.
SETTLED: Final = (
    "no record is left: release the entry (adt-engine messages release {seq})",
    "one record is left: release the entry (adt-engine messages release {seq})",
)


async def _replay(engine: Engine, actor: Actor, given: Given) -> Any:
    force, destination = bool(given.get("force")), text_in(given, "destination")
    return {
        "destinations": await engine.entry_operations.replay(entry_in(given), destination, force=force, by=actor.name)
    }


async def _release(engine: Engine, actor: Actor, given: Given) -> Any:
    force = bool(given.get("force"))
    return {"destinations": await engine.entry_operations.release(entry_in(given), force=force, by=actor.name)}


async def _retry(engine: Engine, actor: Actor, given: Given) -> Any:
    return {"destinations": await engine.entry_operations.retry(entry_in(given), by=actor.name)}


async def _discard(engine: Engine, actor: Actor, given: Given) -> Any:
    count = await engine.journal.discard(entry_in(given), _reason_in(given, "the entry is discarded"), actor.name)
    engine.wake(tuple(engine.dispatches))
    return {"runnable": count}


async def _rehearse(engine: Engine, _actor: Actor, given: Given) -> Any:
    seq = entry_in(given)
    raw = await _edited_in(engine, given) if "message" in given or "set" in given else None
    return rehearsed(seq, await dry_run(engine.entry_operations, seq, text_in(given, "destination"), raw))


async def _edit(engine: Engine, actor: Actor, given: Given) -> Any:
    seq, force = entry_in(given), bool(given.get("force"))
    discard = _reason_in(given, "the original is discarded") if given.get("discard_original") else ""
    raw = await _edited_in(engine, given)
    made = await editing.edit(engine.entry_operations, seq, raw, by=actor.name, force=force, discard=discard)
    return {
        "entry": made.seq,
        "parent": seq,
        "state": str(made.state),
        "differences": [_change(one) for one in made.changes],
        "original": str(made.original),
        "next_step": NEXT_STEP if made.original in UNFINISHED else "",
    }


async def _matches(engine: Engine, _actor: Actor, given: Given) -> Any:
    seq = entry_in(given)
    asked = await choosing.ask(engine.entry_operations, seq, text_in(given, "destination"))
    return {
        "entry": seq,
        "destination": asked.destination,
        "reason": asked.reason,
        "identities": ["|".join(one) for one in asked.question.identities],
        "matches": _shown(asked.question),
        "next_step": SETTLED[asked.question.left].format(seq=seq) if asked.settled else "",
    }


async def _resolve(engine: Engine, actor: Actor, given: Given) -> Any:
    named = text_in(given, "patient")
    if not named:
        raise UsageError("name the Patient that it is, by its id at the server: --patient ID")
    seq, destination = entry_in(given), text_in(given, "destination")
    return {"destinations": await choosing.resolve(engine.entry_operations, seq, destination, named, by=actor.name)}


def rehearsed(seq: int, found: EntryDryRun) -> dict[str, Any]:
    """Return a rehearsal as the REHEARSAL of this module."""
    findings = [f"{one.code.value} {one.reason} {' '.join(one.locations)}".rstrip() for one in found.findings]
    return {
        "entry": seq,
        "differences": [_change(one) for one in found.changes],
        "refused": {"reason": found.reason, "findings": findings} if found.reason or findings else None,
        "destinations": [
            {"destination": name, "overtaken": name in found.overtaken, **to_json(one)}
            for name, one in found.by_destination.items()
        ],
    }


async def _edited_in(engine: Engine, given: Given) -> bytes:
    """Return the bytes that a request edits an entry to; UsageError where it says nothing or nonsense."""
    message, changes = text_in(given, "message"), given.get("set") or {}
    if not isinstance(changes, dict) or not all(isinstance(one, str) for one in changes.values()):
        raise UsageError('`set` must be of the form {"PID-5.1": "text"}')
    if bool(message) == bool(changes):
        raise UsageError("give the whole message, or the parts to set: --file FILE, or --set PID-5.1=TEXT")
    view = await engine.entry_operations.entry(entry_in(given))
    try:
        return editing.bytes_of(view, engine.entry_operations.feed(view.row.channel), message, changes)
    except EditError as error:
        raise UsageError(str(error)) from error


def _reason_in(given: Given, what: str) -> str:
    reason = given.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError(f"say why {what}: --reason TEXT")
    if len(reason) > MOST_REASON:
        raise UsageError(f"say in {MOST_REASON} characters why {what}: --reason TEXT")
    return reason


def _change(one: FieldChange) -> dict[str, Any]:
    return {"path": one.path, "before": one.before, "after": one.after}


def _shown(question: Question) -> list[dict[str, Any]]:
    found = []
    for one in question.matches:
        who = person(one.body)
        found.append(
            {
                "patient": one.logical_id,
                "active": one.body.get("active") is not False,
                "merged": bool(replaced_by(one.body)),
                "name": f"{who.family}, {who.given}".strip(", "),
                "birthDate": who.birth_date,
                "gender": who.gender,
                "identifiers": ["|".join(number) for number in current_numbers(one.body)],
                "carries": ["|".join(number) for number in question.identities if carries(one.body, number)],
            }
        )
    return found


ENTRIES: Final = (
    Act("messages.replay", Permission.OPERATE, _replay),
    Act("messages.release", Permission.OPERATE, _release),
    Act("messages.retry", Permission.OPERATE, _retry),
    Act("messages.discard", Permission.OPERATE, _discard),
    Act("messages.rehearse", Permission.OPERATE, _rehearse),
    Act("messages.edit", Permission.OPERATE, _edit),
    Act("messages.matches", Permission.OPERATE, _matches),
    Act("messages.resolve", Permission.OPERATE, _resolve),
)
