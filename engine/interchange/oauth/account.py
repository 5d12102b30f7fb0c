"""For whom a token speaks, as configured now: a role that changes or an account that goes acts at the next request."""

from engine.config.service import ServiceConfiguration
from engine.interchange.oauth.vault import Principal, Token


def former_principal(configuration: ServiceConfiguration, token: Token) -> Principal | None:
    """Return for whom a token was that opens nothing any more, for the access log; None where its client is gone."""
    client = configuration.clients.get(token.client)
    if client is None:
        return None
    user = configuration.users.get(token.user)
    role = user.role if user is not None else client.role
    return Principal(token.client, token.user, client.tenant, role, (), token.api_version, token.patient)


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
