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
                       "identifiers": ["system|value"], "carries": ["system|value"]}]}
    messages.resolve   {"entry", "destination", "patient": id} -> {"destinations": 1}: chosen, then released

All need OPERATE. `destination` may be left out where there is only one that it can mean.

REHEARSAL: {"entry", "differences": [EDIT] (of an edit), "refused": {"reason", "findings": [text]} | null,
"destinations": [{"destination", "verdict": "delivered" | "held" | "rejected" | "retry", "reason", "notes": [codes],
"calls": [{"method", "path", "headers": {...}, "body": JSON | null, "changes": true}],
"differences": [{"resource": "Patient/1", "path": "name[0].family", "before": JSON | null, "after": JSON | null}]}]}.
A resource that the plan would create is called `Patient/new-1`. `changes` is false for a preview.
EDIT: {"path": "PID-5.1", "before": text | null, "after": text | null}.
"""

from typing import Any, Final

from engine.errors import UsageError
from engine.ops.acts.act import Act, Actor, Given, entry_in
from engine.ops.acts.role import Permission
from engine.pipeline.engine import Engine


async def _replay(engine: Engine, actor: Actor, given: Given) -> Any:
    count = await engine.journal.replay(entry_in(given), force=bool(given.get("force")), by=actor.name)
    engine.wake(tuple(engine.dispatches))
    return {"destinations": count}


async def _release(engine: Engine, actor: Actor, given: Given) -> Any:
    count = await engine.journal.release(entry_in(given), force=bool(given.get("force")), by=actor.name)
    engine.wake(tuple(engine.dispatches))
    return {"destinations": count}


async def _discard(engine: Engine, actor: Actor, given: Given) -> Any:
    reason = given.get("reason")
    if not isinstance(reason, str) or not reason.strip():
        raise UsageError("say why the entry is discarded: --reason TEXT")
    count = await engine.journal.discard(entry_in(given), reason, actor.name)
    engine.wake(tuple(engine.dispatches))
    return {"runnable": count}


async def _unbuilt(_engine: Engine, _actor: Actor, _given: Given) -> Any:
    raise UsageError("this is not built yet")


ENTRIES: Final = (
    Act("messages.replay", Permission.OPERATE, _replay),
    Act("messages.release", Permission.OPERATE, _release),
    Act("messages.retry", Permission.OPERATE, _unbuilt),
    Act("messages.discard", Permission.OPERATE, _discard),
    Act("messages.rehearse", Permission.OPERATE, _unbuilt),
    Act("messages.edit", Permission.OPERATE, _unbuilt),
    Act("messages.matches", Permission.OPERATE, _unbuilt),
    Act("messages.resolve", Permission.OPERATE, _unbuilt),
)
