"""The principal of a token by the current configuration: a lost right takes effect at the next request.

That is a role, a scope or a grant of the client, or the account itself if it is disabled or removed.
"""

from functools import lru_cache

from engine.config.account import AUTHORIZATION_CODE, Client
from engine.config.service import ServiceConfiguration
from engine.interchange.tokens.code import Authorization
from engine.interchange.tokens.scope import PERSONAL, narrowed
from engine.interchange.tokens.vault import Principal, StoredToken


def former_principal(configuration: ServiceConfiguration, token: StoredToken) -> Principal | None:
    """Return the principal of a token that is no longer valid, for the access log; None if its client is removed."""
    client = configuration.clients.get(token.client)
    if client is None:
        return None
    user = configuration.users.get(token.user)
    role = user.role if user is not None else client.role
    return Principal(token.client, token.user, client.tenant, role, (), token.api_version, token.patient)


def principal_of(configuration: ServiceConfiguration, token: StoredToken) -> Principal | None:
    """Return the principal of a token.

    None if its client or user is removed or disabled, if they are no longer of one tenant, or if the client no longer
    has the grant of the token.
    """
    client = configuration.clients.get(token.client)
    if client is None or not holds(configuration, client, token.user, token.grant):
        return None
    role = configuration.users[token.user].role if token.user else client.role
    registered = client.scopes if token.grant else (*client.scopes, *PERSONAL)
    scopes = still_granted(registered, token.scope, confined=bool(token.patient))
    return Principal(token.client, token.user, client.tenant, role, scopes, token.api_version, token.patient)


def holds(configuration: ServiceConfiguration, client: Client, login: str, grant: str) -> bool:
    """Say whether tokens of a client are valid: for a user, '' for none, and by a grant, '' for a command's."""
    if client.disabled or (grant and grant not in client.grants):
        return False
    user = configuration.users.get(login)
    return not login or (user is not None and not user.disabled and user.tenant == client.tenant)


def allowed_now(configuration: ServiceConfiguration, given: Authorization) -> str:
    """Return the scopes of an authorization that are still allowed, '' for none."""
    client = configuration.clients.get(given.client)
    if client is None or not holds(configuration, client, given.user, AUTHORIZATION_CODE):
        return ""
    return " ".join(still_granted(client.scopes, given.scope, confined=bool(given.patient)))


@lru_cache(maxsize=4096)
def still_granted(registered: tuple[str, ...], scope: str, *, confined: bool) -> tuple[str, ...]:
    """Return the scopes of a token that are still registered; `confined` to one patient."""
    return narrowed(registered, tuple(scope.split()), confined=confined)
