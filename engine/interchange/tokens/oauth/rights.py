"""The rights of a token to related resources: scopes and role together."""

from engine.config.service import ServiceConfiguration
from engine.interchange.tokens.oauth.role import RoleRule, permits
from engine.interchange.tokens.oauth.scope import allows, wide
from engine.interchange.tokens.oauth.vault import Principal


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
