"""The operation that explains reasons."""

from typing import Any

from pydantic import Field

from engine.ops.access.actor import Actor, Permission
from engine.ops.operations.fields import Word
from engine.ops.operations.operation import Operation
from engine.ops.views.reasons import Reason, lines


class ListReasons(Operation[list[Reason]]):
    """Explain a reason, or all of a kind: whether it can wait until morning, and what to do next."""

    name = "reasons"
    permission = Permission.METADATA

    code: Word = Field("", description="One code; all of them without it.")
    kind: Word = Field("", description="Only codes of this kind, such as held or alert.")

    async def run(self, _engine: Any, _actor: Actor) -> list[Reason]:
        """Return the lines; UsageError where no reason is of the kind."""
        return lines(self.code, self.kind)
