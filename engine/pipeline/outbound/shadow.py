"""Shadow (`mode: shadow`): a channel parallel to an old interface; its entries are dry runs, never delivered."""

from typing import Any, Final

import orjson

from engine.deliver.verdict import Verdict, VerdictKind
from engine.deliver.wire.dry_run import DryRun

_NOTES: Final = {
    VerdictKind.DELIVERED: "would-be-delivered",
    VerdictKind.HELD: "would-be-held",
    VerdictKind.REJECTED: "would-be-rejected",
}


def shadowed(dry_run: DryRun) -> Verdict:
    """Return the verdict on a dry run of an entry in shadow: filtered, with all that it found, or a retry.

    A server that cannot be asked is asked again, as for a delivery.
    """
    verdict = dry_run.verdict
    if verdict.kind is VerdictKind.RETRY:
        return verdict
    notes = (f"{_NOTES[verdict.kind]} {verdict.reason}", *verdict.notes)
    return Verdict(VerdictKind.FILTERED, "shadow", notes, dry_run=orjson.dumps(to_json(dry_run)))


def to_json(dry_run: DryRun) -> dict[str, Any]:
    """Return a dry run as plain JSON."""
    verdict = dry_run.verdict
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
            for call in dry_run.calls
        ],
        "differences": [
            {"resource": one.resource, "path": one.path, "before": one.before, "after": one.after}
            for one in dry_run.differences
        ],
    }
