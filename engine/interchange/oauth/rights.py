"""What a token may read beside the type that it asks for: scopes and role together."""

from engine.config.service import Tenant
from engine.interchange.oauth.role import Action, permits
from engine.interchange.oauth.scope import allows
from engine.interchange.oauth.vault import Principal


def may(tenant: Tenant, principal: Principal, type_name: str, access: str, action: Action) -> bool:
    """Say whether a token may do with a type what letters of `cruds` name; `action` is what its role must permit."""
    granted = tenant.scope_enforcement != "strict" or allows(principal.scopes, type_name, access)
    return granted and permits(principal.role, action)
