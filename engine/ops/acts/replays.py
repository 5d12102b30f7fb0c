"""Acts on bulk runs: many entries replayed or released in journal order, by the engine itself, at a bounded rate.

Which entries (`plan`, `start`): `entries` (a list of numbers), or a filter of `state` (delivered by default),
`channel`, `event`, `patient` (value or system|value), `reason`, `since`, `until` (ISO 8601, `until` excluded).
`destination`: only there; an entry that was never given to it is given to it now, which fills a new destination.
`force`: even what was overtaken by newer data. `rate`: entries a second (200).

    replays.plan      OPERATE   the above -> PLAN
    replays.start     OPERATE   the above, and "rate" -> RUN
    replays.progress  METADATA  {"run": 7} -> RUN
    replays.list      METADATA  {"limit": 50} -> [RUN], newest first
    replays.stop      OPERATE   {"run": 7} -> RUN
    replays.resume    OPERATE   {"run": 7} -> RUN

PLAN: {"count", "first", "last", "events": {"A08": 3}, "states": {"delivered": 3}, "overtaken": 0, "entries": [numbers,
the first 1,000]}; `overtaken` are those that will be refused without `force`.

RUN: {"run": 7, "kind": "replay" | "release", "state": "running" | "stopped" | "done", "by", "filter": {...}, "force",
"destination", "rate", "started_at", "ended_at" | null, "total", "position", "counts": {"delivered": 3, "held": 1,
"refused": 2, "under way": 4}, "refusals": [{"entry", "why"}, the first 100]}. `position` is how many of `total` were
taken up; a filter by patient is shown as "patient": "named".
"""

from typing import Any, Final

from engine.errors import UsageError
from engine.ops.acts.act import Act, Actor, Given
from engine.ops.acts.role import Permission
from engine.pipeline.engine import Engine


async def _unbuilt(_engine: Engine, _actor: Actor, _given: Given) -> Any:
    raise UsageError("this is not built yet")


REPLAYS: Final = (
    Act("replays.plan", Permission.OPERATE, _unbuilt),
    Act("replays.start", Permission.OPERATE, _unbuilt),
    Act("replays.progress", Permission.METADATA, _unbuilt),
    Act("replays.list", Permission.METADATA, _unbuilt),
    Act("replays.stop", Permission.OPERATE, _unbuilt),
    Act("replays.resume", Permission.OPERATE, _unbuilt),
)
