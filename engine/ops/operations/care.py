"""Acts of care for the journal: a backup is announced, old entries are taken away now."""

from typing import Any, Final

from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.pipeline.care.care import prune_all
from engine.pipeline.engine import Engine, now


async def _backup(engine: Engine, _actor: Actor, _given: Given) -> Any:
    """Say that a backup is being made: whoever makes it reads the file itself, this is its line in the audit."""
    return {"data": str(engine.files.data)}


async def _prune(engine: Engine, _actor: Actor, _given: Given) -> Any:
    return await prune_all(engine.journal, {name: feed.channel for name, feed in engine.feeds.items()}, now())


CARE: Final = (
    Act("journal.backup", Permission.CARE, _backup),
    Act("journal.prune", Permission.CARE, _prune),
)
