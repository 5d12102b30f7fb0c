"""Acts that only look: lists, one entry, why it came out so, counts.

What is given and returned: ops/searching.py (list, search), ops/view.py (show, facts), ops/explain.py (explain),
ops/exporting.py (export), ops/counts.py (counts, throughput), ops/unmapped.py (codes).
"""

import asyncio
from typing import Any, Final

from engine.ops.acts.act import Act, Actor, Given
from engine.ops.acts.role import Permission
from engine.ops.counts import counted, passed, stood
from engine.ops.explain import explained_entry
from engine.ops.exporting import exported
from engine.ops.searching import listed, searched
from engine.ops.unmapped import unmapped, values
from engine.ops.view import facts, shown
from engine.pipeline.engine import Engine


async def _list(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(listed, engine.files.data, given)


async def _search(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(searched, engine.files.data, given)


async def _show(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(shown, engine.files.data, given)


async def _facts(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(facts, engine.files.data, given)


async def _explain(engine: Engine, _actor: Actor, given: Given) -> Any:
    channels = {name: feed.channel for name, feed in engine.feeds.items()}
    return await asyncio.to_thread(explained_entry, engine.files, channels, given)


async def _export(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(exported, engine.files.data, given)


async def _stats(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return await asyncio.to_thread(stood, engine.files.data)


async def _counts(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(counted, engine.files.data, given)


async def _throughput(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(passed, engine.files.data, given)


async def _unmapped(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(unmapped, engine.files.data, given)


async def _values(engine: Engine, _actor: Actor, given: Given) -> Any:
    return await asyncio.to_thread(values, engine.files.data, given)


MESSAGES: Final = (
    Act("messages.list", Permission.METADATA, _list),
    Act("messages.search", Permission.PHI, _search),
    Act("messages.show", Permission.PHI, _show),
    Act("messages.facts", Permission.METADATA, _facts),
    Act("messages.explain", Permission.PHI, _explain),
    Act("messages.export", Permission.PHI, _export),
    Act("stats", Permission.METADATA, _stats),
    Act("messages.counts", Permission.METADATA, _counts),
    Act("messages.throughput", Permission.METADATA, _throughput),
    Act("codes.unmapped", Permission.METADATA, _unmapped),
    Act("codes.values", Permission.PHI, _values),
)
