"""Shadow: a channel beside an old interface, whose entries are rehearsed and never delivered (`mode: shadow`)."""

from typing import Any, Final

import orjson

from engine.deliver.dry_run import Rehearsal
from engine.deliver.verdict import Verdict, VerdictKind

SHADOW: Final = "shadow"
_NOTES: Final = {
    VerdictKind.DELIVERED: "would-be-delivered",
    VerdictKind.HELD: "would-be-held",
    VerdictKind.REJECTED: "would-be-rejected",
}


def shadowed(rehearsal: Rehearsal) -> Verdict:
    """Return the verdict on an entry that was rehearsed: filtered, with all that the rehearsal told, or tried again.

    A server that cannot be asked is asked again, as for a delivery.
    """
    verdict = rehearsal.verdict
    if verdict.kind is VerdictKind.RETRY:
        return verdict
    notes = (f"{_NOTES[verdict.kind]} {verdict.reason}", *verdict.notes)
    return Verdict(VerdictKind.FILTERED, "shadow", notes, told=orjson.dumps(told(rehearsal)))


def told(rehearsal: Rehearsal) -> dict[str, Any]:
    """Return a rehearsal as plain JSON."""
    verdict = rehearsal.verdict
    return {
        "verdict": str(verdict.kind),
        "reason": verdict.reason,
        "notes": list(verdict.notes),
        "calls": [
            {
                "method": call.method,
                "path": call.path,
                "headers": dict(call.headers),
                "body": call.body,
                "changes": call.changes,
            }
            for call in rehearsal.calls
        ],
        "differences": [
            {"resource": one.resource, "path": one.path, "before": one.before, "after": one.after}
            for one in rehearsal.differences
        ],
    }
