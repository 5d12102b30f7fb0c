"""What a role alone does not open: operations that need a password typed just now, and tokens limited to channels."""

from collections.abc import Mapping

from engine.errors import ForbiddenOperationError, UnconfirmedOperationError
from engine.ops.access.actor import Actor
from engine.ops.access.role import may
from engine.ops.operations.operation import AnyOperation, Confirm


def admit(operation: AnyOperation, actor: Actor, given: Mapping[str, object]) -> None:
    """Raise ForbiddenOperationError where the role does not permit an operation, or it is beyond a token's channels.

    UnconfirmedOperationError where the password must be typed again.
    """
    name = operation.name
    if not may(actor.role, operation.permission):
        raise ForbiddenOperationError(
            f"the role {actor.role} may not do {name}: it needs the permission {operation.permission}"
        )
    grave = any(given.get(switch) for switch in operation.grave())
    if not actor.confirmed and (grave or operation.confirm is Confirm.STEP_UP):
        raise UnconfirmedOperationError(f"{name} needs your password once more")
    if actor.channels and (not operation.of_channel or given.get("channel") not in actor.channels):
        names = ", ".join(actor.channels)
        raise ForbiddenOperationError(
            f"this token is limited to {names}: it may list the messages of a channel that it names, and send to it"
        )
