"""What a token may read beside what it asks for: scopes and role together."""

from engine.config.service import ServiceConfiguration
from engine.interchange.tokens.oauth.role import RoleRule, permits
from engine.interchange.tokens.oauth.scope import allows, wide
from engine.interchange.tokens.oauth.vault import Principal


def may(
    configuration: ServiceConfiguration, principal: Principal, type_name: str, access: str, action: RoleRule
) -> bool:
    """Say whether a token may do with a type what letters of `cruds` name; `action` is what its role must permit.

    What comes along or is linked may be anybody's, so that scopes for one patient's record (`patient/`) open nothing
    of it to a token that is for one patient, or whose client must have one.
    """
    confined = bool(principal.patient) or configuration.clients[principal.client].patient_context == "required"
    scopes = tuple(filter(wide, principal.scopes)) if confined else principal.scopes
    lax = configuration.tenants[principal.tenant].scope_enforcement != "strict"
    return ((lax and not confined) or allows(scopes, type_name, access)) and permits(principal.role, action)


def may_see(configuration: ServiceConfiguration, principal: Principal, type_name: str, *, own: bool = False) -> bool:
    """Say whether a token that may write to a resource may read it, too; what a role may write it may read.

    `own`: it is known to be in the record of the patient whom the token is for. Else scopes for one patient's record
    (`patient/`) show nothing of it to a token that is for one patient, or whose client must have one.
    """
    confined = not own and (
        bool(principal.patient) or configuration.clients[principal.client].patient_context == "required"
    )
    scopes = tuple(filter(wide, principal.scopes)) if confined else principal.scopes
    lax = configuration.tenants[principal.tenant].scope_enforcement != "strict"
    return (lax and not confined) or allows(scopes, type_name, "r")
