"""Who asks: how people and programs are named, their roles, and what each role may do."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal


class Permission(StrEnum):
    """What an operation, a page or a route needs."""

    METADATA = "metadata"
    PHI = "phi"
    OPERATE = "operate"
    CHANNELS = "channels"
    MAPPINGS = "mappings"
    PUBLISH = "publish"
    AUDIT = "audit"
    USERS = "users"
    CARE = "care"
    SEND = "send"


class Role(StrEnum):
    """Roles of accounts and tokens.

    `sender` is for tokens alone: it may send messages over HTTP and see nothing. `owner` is the user who may open the
    admin socket: the engine's own user, or root.
    """

    VIEWER = "viewer"
    VIEWER_PHI = "viewer-phi"
    OPERATOR = "operator"
    AUTHOR = "author"
    AUDITOR = "auditor"
    ADMIN = "admin"
    SENDER = "sender"
    OWNER = "owner"


PERMITTED: Final[Mapping[Role, frozenset[Permission]]] = {
    Role.VIEWER: frozenset({Permission.METADATA}),
    Role.VIEWER_PHI: frozenset({Permission.METADATA, Permission.PHI}),
    Role.OPERATOR: frozenset(
        {Permission.METADATA, Permission.PHI, Permission.OPERATE, Permission.CHANNELS, Permission.MAPPINGS}
    ),
    Role.AUTHOR: frozenset({Permission.METADATA, Permission.MAPPINGS, Permission.PUBLISH}),
    Role.AUDITOR: frozenset({Permission.AUDIT}),
    Role.ADMIN: frozenset({Permission.METADATA, Permission.USERS, Permission.CHANNELS, Permission.CARE}),
    Role.SENDER: frozenset({Permission.SEND}),
    Role.OWNER: frozenset(Permission),
}


def may(role: Role, permission: Permission) -> bool:
    """Say whether a role has a permission."""
    return permission in PERMITTED[role]


@dataclass(frozen=True, slots=True)
class Actor:
    """Who asks: the account (or operating-system user), its role, and the way the request came.

    `channels`: what an API token is limited to, nothing for no limit. `confirmed`: whether the password was typed
    within the last minutes; pages ask for it again where an operation needs that. `login`: the log-in that a page's
    session goes back to, '' for programs and commands.
    """

    name: str
    role: Role
    via: Literal["socket", "page", "api"]
    address: str = ""
    channels: tuple[str, ...] = ()
    confirmed: bool = True
    login: str = ""


RULE: Final = "small letters, digits, dot, dash, underscore and @, at most 64, beginning with a letter or digit"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_LONGEST_TYPED: Final = 256


def folded(typed: str) -> str:
    """Return a name as it is kept, whatever the keyboard made of it."""
    return unicodedata.normalize("NFKC", typed[:_LONGEST_TYPED]).strip().casefold()


def is_name(name: str) -> bool:
    """Say whether a folded name can be given."""
    return _NAME.fullmatch(name) is not None
