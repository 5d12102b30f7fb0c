"""Acts that read entries: list, show, counts."""

import asyncio
from typing import Any, Final

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


MESSAGES: Final = (
    Act("messages.list", Permission.METADATA, _list),
    Act("messages.show", Permission.PHI, _show),
    Act("stats", Permission.METADATA, _stats),
)
