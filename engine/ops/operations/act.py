"""An act: something a person asks of the running engine, with the permission that it needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from engine import fault
from engine.errors import AdtEngineError, ForbiddenActError, UsageError
from engine.journal.access.audit import AuditOutcome
from engine.ops.access.actor import Actor
from engine.ops.access.keys import Keys
from engine.ops.access.role import Permission, may
from engine.ops.audit.trail import AUDITED, Trail
from engine.ops.operations.limits import check_limits
from engine.ops.request import Given
from engine.pipeline.engine import Engine, now

__all__ = ["Act", "Actor", "Acts", "Given"]


@dataclass(frozen=True, slots=True)
class Act:
    """One act by its name; `run(engine, actor, given)` does it and returns what --json shows."""

    name: str
    permission: Permission
    run: Callable[[Engine, Actor, Given], Awaitable[Any]]


class Acts:
    """The acts of one running engine; what needs more than METADATA is in the audit trail before it is done."""

    def __init__(self, engine: Engine, acts: tuple[Act, ...], trail: Trail | None = None) -> None:
        """Hold acts; without a trail that others write too, one is made over the engine's journal."""
        self._engine = engine
        self._acts = {act.name: act for act in acts}
        self._trail = trail or Trail(engine.journal, Keys.of(engine.files.data), now)

    async def perform(self, name: str, actor: Actor, given: Given) -> Any:
        """Do what is asked; UsageError for an unknown act, ForbiddenActError where the role may not.

        UnconfirmedActError: a password must be typed first. UnrecordedActError: the audit trail cannot be written.
        """
        act = self._acts.get(name)
        if act is None:
            raise UsageError(f"the running engine does not know {name!r}: is it of an older version?")
        try:
            _admit(act, actor, given)
        except ForbiddenActError as error:
            await self._trail.refuse(actor, name, given, error)
            raise
        if act.permission not in AUDITED:
            return await act.run(self._engine, actor, given)
        return await self._recorded(act, actor, given)

    async def _recorded(self, act: Act, actor: Actor, given: Given) -> Any:
        row = await self._trail.ask(actor, act.name, given)
        try:
            if act.permission is Permission.OPERATE:
                fault.point("F19")
            return await act.run(self._engine, actor, given)
        except AdtEngineError as error:
            await self._trail.end(row, actor, act.name, error, AuditOutcome.REFUSED)
            raise
        except Exception as error:
            await self._trail.end(row, actor, act.name, error, AuditOutcome.FAILED)
            raise


def _admit(act: Act, actor: Actor, given: Given) -> None:
    if not may(actor.role, act.permission):
        raise ForbiddenActError(
            f"the role {actor.role} may not do {act.name}: it needs the permission {act.permission}"
        )
    check_limits(act.name, act.permission, actor, given)
