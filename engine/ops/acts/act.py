"""An act: something a person asks of the running engine, with the permission that it needs."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ForbiddenActError, UsageError
from engine.ops.acts.actor import Actor
from engine.ops.acts.role import Permission, may
from engine.pipeline.engine import Engine

__all__ = ["Act", "Actor", "Acts", "Given", "entry_in"]

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Act:
    """One act by its name; `run(engine, actor, given)` does it and returns what --json shows."""

    name: str
    permission: Permission
    run: Callable[[Engine, Actor, Given], Awaitable[Any]]


class Acts:
    """The acts of one running engine."""

    def __init__(self, engine: Engine, acts: tuple[Act, ...]) -> None:
        self._engine = engine
        self._acts = {act.name: act for act in acts}

    async def perform(self, name: str, actor: Actor, given: Given) -> Any:
        """Do what is asked; UsageError for an unknown act, ForbiddenActError where the role may not."""
        act = self._acts.get(name)
        if act is None:
            raise UsageError(f"the running engine does not know {name!r}: is it of an older version?")
        if not may(actor.role, act.permission):
            raise ForbiddenActError(
                f"the role {actor.role} may not do {name}: it needs the permission {act.permission}"
            )
        return await act.run(self._engine, actor, given)


def entry_in(given: Given) -> int:
    """Return the entry that a request names; UsageError where it names none."""
    seq = given.get("entry")
    if not isinstance(seq, int) or seq < 1:
        raise UsageError("name an entry by its number, as `messages list` shows it")
    return seq
