"""Roles: what an account may do, in addition to its scopes."""

from enum import StrEnum
from typing import Final

from engine.config.account import Role
from engine.interchange.kernel.outcome import Category, refuse


class RoleRule(StrEnum):
    """Actions that a role allows or denies."""

    PATIENT = "Patient read, search, create and update"
    MERGE = "Patient/$merge"
    CHART = "reading clinical resources, Patient/$everything"
    CLINICAL = "writing clinical resources"
    DELETE = "deleting resources"
    PRESCRIBE = "creating a MedicationRequest"
    BILLING = "writing Coverage, Account and RelatedPerson"
    AUDIT = "reading the access log"
    SUBSCRIBE = "reading and writing Subscriptions"
    DIRECTORY = "reading Organization, Location, Practitioner and what billing needs"


EVERYONE: Final = frozenset(Role)
CLINICIANS: Final = EVERYONE - {Role.ADMINISTRATIVE}
# System Integration: only the scopes decide.
ALLOWED: Final = {
    RoleRule.PATIENT: EVERYONE,
    RoleRule.MERGE: CLINICIANS,
    RoleRule.CHART: CLINICIANS,
    RoleRule.CLINICAL: CLINICIANS,
    RoleRule.DELETE: frozenset({Role.PHYSICIAN, Role.SYSTEM_INTEGRATION}),
    RoleRule.PRESCRIBE: CLINICIANS - {Role.NURSE},
    RoleRule.BILLING: EVERYONE,
    RoleRule.AUDIT: frozenset({Role.SYSTEM_INTEGRATION}),
    RoleRule.SUBSCRIBE: frozenset({Role.PHYSICIAN, Role.SYSTEM_INTEGRATION}),
    RoleRule.DIRECTORY: EVERYONE,
}


def permits(role: Role, action: RoleRule) -> bool:
    """Say whether a role permits an action."""
    return role in ALLOWED[action]


def demand(role: Role, action: RoleRule) -> None:
    """Refuse (403) an action that a role does not permit."""
    if not permits(role, action):
        raise refuse(Category.FORBIDDEN, f"The role {role} may not do this.", location="http.Authorization")
