"""Roles and what each may do; every operation, page and route names the one permission that it needs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Permission(StrEnum):
    """What an operation, a page or a route needs."""

    METADATA = "metadata"
    PHI = "phi"
    OPERATE = "operate"
    CHANNELS = "channels"
    MAPPINGS = "mappings"
    AUDIT = "audit"
    USERS = "users"
    CARE = "care"
    SEND = "send"


class Role(StrEnum):
    """Roles of accounts and tokens.

    `sender` is for tokens alone: it may send messages over HTTP and see nothing. `owner` is whoever may open the admin
    socket: the engine's own user, or root.
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
    Role.OPERATOR: frozenset({Permission.METADATA, Permission.PHI, Permission.OPERATE, Permission.CHANNELS}),
    Role.AUTHOR: frozenset({Permission.METADATA, Permission.MAPPINGS}),
    Role.AUDITOR: frozenset({Permission.AUDIT}),
    Role.ADMIN: frozenset({Permission.METADATA, Permission.USERS, Permission.CHANNELS, Permission.CARE}),
    Role.SENDER: frozenset({Permission.SEND}),
    Role.OWNER: frozenset(Permission),
}


def may(role: Role, permission: Permission) -> bool:
    """Say whether a role has a permission."""
    return permission in PERMITTED[role]
