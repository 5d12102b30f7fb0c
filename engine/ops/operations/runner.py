"""The one way to every operation: admitted, recorded in the audit trail, read, done."""

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from engine import fault
from engine.clock import now
from engine.errors import AdtEngineError, ForbiddenOperationError, UnconfirmedOperationError, UsageError
from engine.interpreter import SHORT_TURNS
from engine.journal.access.audit import AuditOutcome
from engine.journal.read.patients import lanes_of
from engine.ops.access.actor import Actor, Permission, may
from engine.ops.access.keys import Keys
from engine.ops.audit.trail import AUDITED, AuditTrail, Looks
from engine.ops.operations.fields import EntryNumbers
from engine.ops.operations.operation import AnyOperation, Confirm, Operation, Request
from engine.pipeline.engine import Engine


def admit(operation: AnyOperation, actor: Actor, given: Mapping[str, object]) -> None:
    """Raise ForbiddenOperationError where the role does not permit an operation, or it is beyond a token's channels.

    UnconfirmedOperationError where the password must be typed again.
    """
    name = operation.name
    if not may(actor.role, operation.permission):
        raise ForbiddenOperationError(
            f"the role {actor.role} may not do {name}: it needs the permission {operation.permission}"
        )
    step_up = any(given.get(switch) for switch in operation.step_up_switches())
    if not actor.confirmed and (step_up or operation.confirm is Confirm.STEP_UP):
        raise UnconfirmedOperationError(f"{name} needs your password again")
    if actor.channels and (not operation.of_channel or given.get("channel") not in actor.channels):
        names = ", ".join(actor.channels)
        raise ForbiddenOperationError(
            f"this token is limited to {names}: it may list the messages of a channel that it names, and send to it"
        )


A = TypeVar("A")


class EntryList(Request):
    """The entries that an operation names."""

    entries: EntryNumbers = ()


class Operations:
    """The operations of one running engine; what needs more than METADATA is in the audit trail before it is done."""

    def __init__(self, engine: Engine, known: tuple[AnyOperation, ...], trail: AuditTrail | None = None) -> None:
        """Hold operations; without a trail that others write too, one is made over the engine's journal."""
        self._engine = engine
        self._known = {operation.name: operation for operation in known}
        self._trail = trail or AuditTrail(engine.journal, Keys.of(engine.files.data), now)
        self._looks = Looks()

    def named(self, name: str) -> AnyOperation:
        """Return the operation of a name; UsageError where none has it."""
        found = self._known.get(name)
        if found is None:
            raise UsageError(f"the running engine does not know {name!r}: is it an older version?")
        return found

    async def answer(self, name: str, actor: Actor, given: Mapping[str, object]) -> object:
        """Do the operation of a name and return its answer as JSON-able values; the errors are those of `perform`."""
        operation = self.named(name)
        return operation.to_json(await self.perform(operation, actor, given))

    async def perform(
        self, operation: type[Operation[A]], actor: Actor, given: Mapping[str, object], *, written: bool = False
    ) -> A:
        """Do what is asked and return its answer; ForbiddenOperationError where the role may not.

        UnconfirmedOperationError: the password must be typed first. UnrecordedOperationError: the audit trail cannot
        be written. UsageError for a request that makes no sense; that it was made is on record by then.
        """
        try:
            admit(operation, actor, given)
        except ForbiddenOperationError as error:
            await self._trail.refuse(actor, operation.name, given, operation.marks(), error)
            raise
        with SHORT_TURNS.taken():
            return await self._admitted(operation, actor, given, written=written)

    async def _admitted(
        self, operation: type[Operation[A]], actor: Actor, given: Mapping[str, object], *, written: bool
    ) -> A:
        if operation.permission not in AUDITED:
            return await operation.parse(given, written=written).run(self._engine, actor)
        if operation.lists and actor.login:
            return await self._look(operation, actor, given)
        return await self._recorded(operation, actor, given, given, written=written)

    async def _look(self, operation: type[Operation[A]], actor: Actor, given: Mapping[str, object]) -> A:
        """Do what names patients in a list; on record are those whom this log-in has not looked at yet."""
        entries = EntryList.parse({"entries": given.get("entries", ())}).entries
        patients = await asyncio.to_thread(lanes_of, self._engine.files.data, entries)
        unseen = self._looks.unseen(actor.login, patients)
        if entries and not unseen:
            return await operation.parse(given).run(self._engine, actor)
        answer = await self._recorded(operation, actor, given, {**given, "entries": unseen})
        self._looks.note(actor.login, patients)
        return answer

    async def _recorded(
        self,
        operation: type[Operation[A]],
        actor: Actor,
        given: Mapping[str, object],
        recorded: Mapping[str, object],
        *,
        written: bool = False,
    ) -> A:
        row = await self._trail.ask(actor, operation.name, recorded, operation.marks())
        try:
            if operation.permission is Permission.OPERATE:
                fault.point("F19")
            return await operation.parse(given, written=written).run(self._engine, actor)
        except AdtEngineError as error:
            await self._trail.end(row, actor, operation.name, error, AuditOutcome.REFUSED)
            raise
        except Exception as error:
            await self._trail.end(row, actor, operation.name, error, AuditOutcome.FAILED)
            raise
