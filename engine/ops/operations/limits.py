"""What a role alone does not open: acts that need a password typed just now, and tokens limited to channels."""

from typing import Any, Final

from engine.errors import ForbiddenActError, UnconfirmedActError
from engine.ops.access.actor import Actor
from engine.ops.access.role import Permission

# Beside these: what is done with a grave switch, and all that concerns accounts and tokens.
CONFIRMED: Final = frozenset({"messages.discard", "messages.export", "messages.resolve", "audit.export"})
GRAVE: Final = ("force", "discard_original")
# Acts whose `channel` bounds all that they show; a token limited to channels may do nothing else.
OF_ONE_CHANNEL: Final = frozenset({"messages.list", "messages.search"})


def check_limits(act: str, permission: Permission, actor: Actor, given: Any) -> None:
    """Raise UnconfirmedActError where the password must be typed again, ForbiddenActError beyond a token's channels."""
    grave = any(given.get(name) for name in GRAVE)
    if not actor.confirmed and needs_confirmation(act, permission, grave=grave):
        raise UnconfirmedActError(f"{act} needs your password once more")
    if actor.channels and (act not in OF_ONE_CHANNEL or given.get("channel") not in actor.channels):
        names = ", ".join(actor.channels)
        raise ForbiddenActError(
            f"this token is limited to {names}: it may list the messages of a channel that it names, and send to it"
        )


def needs_confirmation(act: str, permission: Permission, *, grave: bool = False) -> bool:
    """Say whether a person at a page must have typed the password within the last five minutes."""
    return grave or act in CONFIRMED or (permission is Permission.USERS and not act.endswith(".list"))
