"""Acts that only look: lists, one entry, why it came out so, counts.

What is given and returned: ops/searching.py (list, search), ops/view.py (show, raw, facts), ops/explain.py (explain),
ops/exporting.py (export), ops/counts.py (counts, throughput), ops/unmapped.py (codes).
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from engine.ops.access.role import Permission
from engine.ops.cli.explain import explained_entry
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.views.counts import counted, passed, stood
from engine.ops.views.exporting import exported
from engine.ops.views.searching import listed, searched
from engine.ops.views.unmapped import unmapped, values
from engine.ops.views.view import facts, raw, shown
from engine.pipeline.engine import Engine


def _read(work: Callable[[Path, Given], Any]) -> Callable[[Engine, Actor, Given], Awaitable[Any]]:
    """Return the act that reads the journal of the engine's folder with this, in a thread."""

    async def run(engine: Engine, _actor: Actor, given: Given) -> Any:
        return await asyncio.to_thread(work, engine.files.data, given)

    return run


async def _explain(engine: Engine, _actor: Actor, given: Given) -> Any:
    channels = {name: feed.channel for name, feed in engine.feeds.items()}
    return await asyncio.to_thread(explained_entry, engine.files, channels, given)


async def _stats(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return await asyncio.to_thread(stood, engine.files.data)


MESSAGES: Final = (
    Act("messages.list", Permission.METADATA, _read(listed)),
    Act("messages.search", Permission.PHI, _read(searched)),
    Act("messages.show", Permission.PHI, _read(shown)),
    Act("messages.raw", Permission.PHI, _read(raw)),
    Act("messages.facts", Permission.METADATA, _read(facts)),
    Act("messages.explain", Permission.PHI, _explain),
    Act("messages.export", Permission.PHI, _read(exported)),
    Act("stats", Permission.METADATA, _stats),
    Act("messages.counts", Permission.METADATA, _read(counted)),
    Act("messages.throughput", Permission.METADATA, _read(passed)),
    Act("codes.unmapped", Permission.METADATA, _read(unmapped)),
    Act("codes.values", Permission.PHI, _read(values)),
)
