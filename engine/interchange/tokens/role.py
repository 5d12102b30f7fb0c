"""Roles: what an account may do, in addition to its scopes; and the rights of a token to related resources."""

from enum import StrEnum
from typing import Final

from engine.config.account import Role
from engine.config.service import ServiceConfiguration
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.tokens.scope import allows, wide
from engine.interchange.tokens.vault import Principal


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


def may(
    configuration: ServiceConfiguration, principal: Principal, type_name: str, access: str, action: RoleRule
) -> bool:
    """Say whether a token has the rights (letters of `cruds`) to a type; `action` is what its role must permit.

    Included or linked resources may be another patient's, so that `patient/` scopes grant no access to them to a token
    for one patient, or of a client that must have one.
    """
    confined = bool(principal.patient) or configuration.clients[principal.client].patient_context == "required"
    scopes = tuple(filter(wide, principal.scopes)) if confined else principal.scopes
    lax = configuration.tenants[principal.tenant].scope_enforcement != "strict"
    return ((lax and not confined) or allows(scopes, type_name, access)) and permits(principal.role, action)


def may_see(configuration: ServiceConfiguration, principal: Principal, type_name: str, *, own: bool = False) -> bool:
    """Say whether a token that may write a resource may read it too; a role that may write it may read it.

    `own`: the resource is in the record of the token's patient. Otherwise `patient/` scopes do not show it to a token
    for one patient, or of a client that must have one.
    """
    confined = not own and (
        bool(principal.patient) or configuration.clients[principal.client].patient_context == "required"
    )
    scopes = tuple(filter(wide, principal.scopes)) if confined else principal.scopes
    lax = configuration.tenants[principal.tenant].scope_enforcement != "strict"
    return (lax and not confined) or allows(scopes, type_name, "r")
