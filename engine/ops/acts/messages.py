"""Acts on entries: list, show, replay, release, discard."""

import asyncio
from typing import Any, Final

from engine.errors import UsageError
from engine.ops.acts.act import Act, Actor, Given, entry_in
from engine.ops.acts.role import Permission
from engine.ops.view import counted, listed, shown
from engine.pipeline.engine import Engine


async def _list(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(listed, engine.files.data, given)


async def _show(engine: Engine, _actor: Actor, given: Given) -> Any:
    entry_in(given)
    return await asyncio.to_thread(shown, engine.files.data, given)


async def _stats(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return await asyncio.to_thread(counted, engine.files.data)


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


MESSAGES: Final = (
    Act("messages.list", Permission.METADATA, _list),
    Act("messages.show", Permission.PHI, _show),
    Act("stats", Permission.METADATA, _stats),
    Act("messages.replay", Permission.OPERATE, _replay),
    Act("messages.release", Permission.OPERATE, _release),
    Act("messages.discard", Permission.OPERATE, _discard),
)
