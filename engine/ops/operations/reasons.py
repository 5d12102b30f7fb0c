"""The act that shows what a reason means."""

from typing import Any, Final

from engine.ops.access.role import Permission
from engine.ops.operations.act import Act, Actor, Given
from engine.ops.views.reasons import lines
from engine.pipeline.engine import Engine


async def _reasons(_engine: Engine, _actor: Actor, given: Given) -> Any:
    return lines(str(given.get("code") or ""), str(given.get("kind") or ""))


REASONS: Final = (Act("reasons", Permission.METADATA, _reasons),)
