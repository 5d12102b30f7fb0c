"""Acts on destinations: how they do and what waits for them; pause and resume.

    destinations.list    METADATA  {} -> [DESTINATION], by name
    destinations.pause   CHANNELS  {"destination", "reason": TEXT} -> DESTINATION    claims nothing, over restarts
    destinations.resume  CHANNELS  {"destination"} -> DESTINATION

DESTINATION: {"destination", "state": "ready" | "paused" | "failing" | "open" | "unreachable", "reason", "detail",
"since", "by", "under_way", "waiting", "oldest_received_at", "held", "held_since", "fhir", "concurrency", "channels":
[names], "lacks": [codes]}. `failing`: as a whole it cannot be used (`reason`: token, permission, TLS), and is tried
again by itself; `open`: too many failures in a row, the same; `unreachable`: it has not answered since the start;
`lacks`: what its server does not do, such as honour If-Match.
"""

import asyncio
from typing import Any, Final

from engine.errors import UsageError
from engine.journal.read.backlog import Backlog, backlogs
from engine.journal.state.pausing import Pause
from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.operations.channels import time_of
from engine.pipeline.alerts.kind import PauseReason
from engine.pipeline.engine import Engine, now

MOST_TEXT: Final = 200


async def _list(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return await _shown(engine, *sorted(engine.dispatches))


async def _pause(engine: Engine, actor: Actor, given: Given) -> Any:
    name = _named(engine, given)
    detail = str(given.get("reason") or "")[:MOST_TEXT]
    await engine.pauses.pause(Pause(name, PauseReason.BY_OPERATOR, detail, now(), actor.name))
    engine.wake((name,))
    return (await _shown(engine, name))[0]


async def _resume(engine: Engine, _actor: Actor, given: Given) -> Any:
    name = _named(engine, given)
    await engine.pauses.resume(name)
    engine.wake((name,))
    return (await _shown(engine, name))[0]


async def _shown(engine: Engine, *names: str) -> list[dict[str, Any]]:
    found = await asyncio.to_thread(backlogs, engine.files.data, names)
    return [_one(engine, name, found[name]) for name in names if name in engine.dispatches]


def _one(engine: Engine, name: str, backlog: Backlog) -> dict[str, Any]:
    dispatch, pause = engine.dispatches[name], engine.pauses.of(name)
    return {
        "destination": name,
        "state": str(dispatch.condition),
        "reason": pause.reason if pause else dispatch.health.failing,
        "detail": pause.detail if pause else "",
        "since": time_of(pause.since if pause else None),
        "by": pause.by if pause else "",
        "under_way": dispatch.under_way,
        "waiting": backlog.depth,
        "oldest_received_at": time_of(backlog.oldest_at),
        "held": backlog.held,
        "held_since": time_of(backlog.held_since),
        "fhir": dispatch.settings.fhir,
        "concurrency": dispatch.settings.concurrency,
        "lacks": list(dispatch.lacks),
        "channels": sorted(one for one, feed in engine.feeds.items() if name in feed.destinations),
    }


def _named(engine: Engine, given: Given) -> str:
    name = given.get("destination")
    if not isinstance(name, str) or name not in engine.dispatches:
        raise UsageError(f"there is no destination {name!r}: `destinations list` names them")
    return name


DESTINATIONS: Final = (
    Act("destinations.list", Permission.METADATA, _list),
    Act("destinations.pause", Permission.CHANNELS, _pause),
    Act("destinations.resume", Permission.CHANNELS, _resume),
)
