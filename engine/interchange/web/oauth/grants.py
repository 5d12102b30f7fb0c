"""The grants of /oauth/token: their parameters, and the tokens that they issue."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from engine.config import account
from engine.config.account import Client
from engine.interchange.core.service import Service
from engine.interchange.tokens.oauth import assertion
from engine.interchange.tokens.oauth.account import allowed_now, principal_of
from engine.interchange.tokens.oauth.assertion import ExpectedClaims, ForgedAssertionError, RefusedAssertionError
from engine.interchange.tokens.oauth.code import CodeExchange
from engine.interchange.tokens.oauth.fault import OAuthError
from engine.interchange.tokens.oauth.scope import OFFLINE, granted, requested_scope
from engine.interchange.tokens.oauth.vault import Bearer, Issued
from engine.interchange.web.oauth.authentication import Caller, Fields, authenticated, named, token_endpoint

# A program of the client's own makes it for one call; an hour leaves room for clocks and for those that keep one.
LONGEST_ASSERTION_SECONDS: Final = 3600
API_VERSIONS: Final = {
    "2023-01-01": "2023-01-01",
    "2025-06-01": "2025-06-01",
    "01-01-2023": "2023-01-01",
    "06-01-2025": "2025-06-01",
}


class Grant(NamedTuple):
    """New tokens, and the nonce for the id_token, '' for none."""

    issued: Issued
    nonce: str = ""


async def token(service: Service, fields: Fields, authorization: str) -> Grant:
    """Return new tokens for a token request; OAuthError if it is refused."""
    grant_type = fields.get("grant_type")
    if not grant_type:
        raise OAuthError("invalid_request", "grant_type is missing.")
    grant = GRANTS.get(grant_type)
    if grant is None:
        raise OAuthError("unsupported_grant_type", f"Use one of: {', '.join(GRANTS)}.")
    return await grant(service, fields, authorization)


def api_version(service: Service, client: Client, fields: Fields) -> str:
    """Return the REST API version of a token; OAuthError for an unknown version."""
    requested = fields.get("rest_api_version")
    if requested is None:
        return service.tenant(client.tenant).rest_api_version
    if requested not in API_VERSIONS:
        raise OAuthError("unsupported_api_version", f"Supported: {', '.join(sorted(set(API_VERSIONS.values())))}.")
    return API_VERSIONS[requested]


async def _client_credentials(service: Service, fields: Fields, authorization: str) -> Grant:
    caller = await authenticated(service, fields, authorization)
    _may(caller, account.CLIENT_CREDENTIALS)
    scope = requested_scope(caller.client, fields.get("scope", ""))
    version = api_version(service, caller.client, fields)
    bearer = Bearer(caller.name, "", scope, version, grant=account.CLIENT_CREDENTIALS)
    return Grant(await service.vault.issue(bearer, refresh=False))


async def _refresh_token(service: Service, fields: Fields, authorization: str) -> Grant:
    caller = await authenticated(service, fields, authorization)
    _may(caller, account.REFRESH_TOKEN)
    old = _needed(fields, "refresh_token")
    unusable = OAuthError("invalid_grant", "The refresh token cannot be used; start a new authorization.")
    found = service.vault.find(old)
    asked = tuple(dict.fromkeys(fields.get("scope", "").split()))
    if found is not None and found.client == caller.name:
        principal = principal_of(service.configuration, found)
        # Without a sign-in this scope requests a refresh token.
        spent = principal is None or (found.grant == account.JWT_BEARER and OFFLINE not in principal.scopes)
        if principal is None or spent:
            raise unusable
        left = principal.scopes
        if granted(left, asked, confined=bool(found.patient)) != asked:
            raise OAuthError("invalid_scope", "A refresh may only narrow the scope.")
        asked = asked or left
        if not asked:
            raise OAuthError("invalid_scope", "The client is no longer registered for any scope of this token.")
    issued = await service.vault.exchange(old, caller.name, " ".join(asked))
    if issued is None:
        raise unusable
    return Grant(issued)


async def _authorization_code(service: Service, fields: Fields, authorization: str) -> Grant:
    caller = await authenticated(service, fields, authorization)
    _may(caller, account.AUTHORIZATION_CODE)
    code, address = _needed(fields, "code"), _needed(fields, "redirect_uri")
    version = api_version(service, caller.client, fields)
    exchange = CodeExchange(
        caller.name, address, fields.get("code_verifier", ""), version, partial(allowed_now, service.configuration)
    )
    exchanged = await service.codes.exchange(code, exchange)
    if exchanged is None:
        raise OAuthError("invalid_grant", "The code cannot be used; start a new authorization.")
    return Grant(*exchanged)


async def _jwt_bearer(service: Service, fields: Fields, authorization: str) -> Grant:
    # The signature by the client's secret authenticates the client too; a secret sent in addition must be correct.
    proves = authorization or {"client_secret", "client_assertion"} & fields.keys()
    caller = await authenticated(service, fields, authorization) if proves else named(service, fields)
    _may(caller, account.JWT_BEARER)
    text = _needed(fields, "assertion")
    expected = ExpectedClaims(caller.client.uri, token_endpoint(service), LONGEST_ASSERTION_SECONDS)
    try:
        read = assertion.verify(text, caller.client, expected, service.clock())
    except RefusedAssertionError as error:
        forged = isinstance(error, ForgedAssertionError)
        raise OAuthError("invalid_grant", f"The assertion is refused: {error}.", unproven=forged) from error
    user = service.configuration.users.get(read.subject)
    if user is None or user.disabled or user.tenant != caller.client.tenant:
        raise OAuthError("invalid_grant", "The assertion is refused: sub is not a user of the client's tenant.")
    scope = requested_scope(caller.client, fields.get("scope", ""))
    version = api_version(service, caller.client, fields)
    if not await assertion.spend(service.store, service.clock, caller.name, read):
        raise OAuthError("invalid_grant", "The assertion has been used before.")
    refresh = OFFLINE in scope.split()
    bearer = Bearer(caller.name, read.subject, scope, version, grant=account.JWT_BEARER)
    return Grant(await service.vault.issue(bearer, refresh=refresh))


GRANTS: Final[Mapping[str, Callable[[Service, Fields, str], Awaitable[Grant]]]] = {
    account.CLIENT_CREDENTIALS: _client_credentials,
    account.REFRESH_TOKEN: _refresh_token,
    account.AUTHORIZATION_CODE: _authorization_code,
    account.JWT_BEARER: _jwt_bearer,
}


def _may(caller: Caller, grant: str) -> None:
    if grant not in caller.client.grants:
        raise OAuthError("unauthorized_client", "The client may not use this grant.")


def _needed(fields: Fields, name: str) -> str:
    value = fields.get(name)
    if not value:
        raise OAuthError("invalid_request", f"{name} is missing.")
    return value
