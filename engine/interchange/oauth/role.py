"""Roles: what an account may do beside its scopes."""

from enum import StrEnum
from typing import Final

from engine.config.account import Role


class Action(StrEnum):
    """What a role allows or denies as a whole."""

    PATIENT = "Patient read, search, create and update"
    MERGE = "Patient/$merge"


EVERYONE: Final = frozenset(Role)
# System Integration: the scopes alone decide.
ALLOWED: Final = {
    Action.PATIENT: EVERYONE,
    Action.MERGE: EVERYONE - {Role.ADMINISTRATIVE},
}


def permits(role: Role, action: Action) -> bool:
    """Say whether a role permits an action."""
    return role in ALLOWED[action]
