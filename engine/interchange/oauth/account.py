"""For whom a token speaks, as configured now: a role that changes or an account that goes acts at the next request."""

from engine.config.service import ServiceConfiguration
from engine.interchange.oauth.vault import Principal, Token


def principal_of(configuration: ServiceConfiguration, token: Token) -> Principal | None:
    """Return who a token speaks for; None where its client or user is gone, or they are no longer of one tenant."""
    client = configuration.clients.get(token.client)
    if client is None:
        return None
    role = client.role
    if token.user:
        user = configuration.users.get(token.user)
        if user is None or user.tenant != client.tenant:
            return None
        role = user.role
    scopes = tuple(token.scope.split())
    return Principal(token.client, token.user, client.tenant, role, scopes, token.api_version, token.patient)
