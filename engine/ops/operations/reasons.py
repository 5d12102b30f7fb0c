"""The operation that shows what reasons mean."""

from typing import Final

from pydantic import Field

from engine.ops.access.actor import Actor
from engine.ops.access.role import Permission
from engine.ops.operations.fields import Word
from engine.ops.operations.operation import Operation
from engine.ops.views.reasons import Reason, lines
from engine.pipeline.engine import Engine


class ListReasons(Operation[list[Reason]]):
    """List what a reason means, or all of a kind: whether it can wait until morning, and what to do next."""

    name = "reasons"
    permission = Permission.METADATA

    code: Word = Field("", description="One code; all of them without it.")
    kind: Word = Field("", description="Only codes of this kind, such as held or alert.")

    async def run(self, _engine: Engine, _actor: Actor) -> list[Reason]:
        """Return the lines; UsageError where no reason is of the kind."""
        return lines(self.code, self.kind)


REASONS: Final = (ListReasons,)
