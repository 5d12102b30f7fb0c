"""Acts on the audit trail: list, verify, anchor, and leave to export.

    audit.list    {"actor", "act" (one, or `users.` for all below), "outcome", "entry", "patient", "since", "until",
                  "before", "limit" (50)} -> [ROW], newest first
    audit.verify  {} -> {"rows", "last", "hash", "anchors", "agreed", "anchored_to",
                  "faults": [{"seq", "kind", "text"}]}
    audit.anchor  {} -> {"seq", "at", "hash", "key", "signature"}
    audit.export  the filters of the list, "format" -> {"upto"}: rows up to there may be read by whoever asked

ROW: {"row", "at", "actor", "role", "via", "address", "act", "entry", "outcome", "reason", "detail": {}, "patients": [],
"follows", "hash"}. A patient is found by `value` or `system|value`, and shown as a mark.
"""

import asyncio
from dataclasses import asdict
from typing import Any, Final

from engine.errors import AdtEngineError
from engine.journal.access import audit
from engine.ops.access.role import Permission
from engine.ops.audit.anchors import Anchors
from engine.ops.audit.auditing import listed, verified, wanted
from engine.ops.operations.act import Act, Actor, Given
from engine.pipeline.engine import Engine, now


async def _list(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(listed, engine.files.data, given)


async def _verify(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return await asyncio.to_thread(verified, engine.files.data)


async def _anchor(engine: Engine, _actor: Actor, _given: Given) -> Any:
    seq, hashed = await engine.journal.read(audit.head)
    anchors = Anchors.of(engine.files.data)
    try:
        return asdict(await asyncio.to_thread(anchors.add, seq, hashed, now()))
    except OSError as error:
        raise AdtEngineError(f"the anchor cannot be written to {anchors.file} ({error.strerror})") from error


async def _export(engine: Engine, _actor: Actor, given: Given) -> Any:
    wanted(given, engine.files.data)
    seq, _hashed = await engine.journal.read(audit.head)
    return {"upto": seq}


AUDIT: Final = (
    Act("audit.list", Permission.AUDIT, _list),
    Act("audit.verify", Permission.AUDIT, _verify),
    Act("audit.anchor", Permission.AUDIT, _anchor),
    Act("audit.export", Permission.AUDIT, _export),
)
