"""The token endpoints: request fields, grants, token answers, token and user information."""

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from engine.config import account
from engine.config.account import Client
from engine.fhir.schema import FhirVersion
from engine.interchange.core.service import Service
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens import assertion
from engine.interchange.tokens.account import allowed_now, principal_of
from engine.interchange.tokens.assertion import ExpectedClaims, ForgedAssertionError, RefusedAssertionError
from engine.interchange.tokens.code import CodeExchange
from engine.interchange.tokens.fault import OAuthError
from engine.interchange.tokens.scope import OFFLINE, granted, requested_scope
from engine.interchange.tokens.vault import Bearer, Issued, StoredToken, TokenKind
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


FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
MAX_FIELDS: Final = 50
PROOFS: Final = frozenset({"client_secret", "client_assertion"})


def parse_fields(content_type: str, body: bytes | None) -> dict[str, str]:
    """Return the fields of a token request, form-encoded or JSON; OAuthError for others and for None (too large)."""
    if body is None:
        raise OAuthError("invalid_request", "The body is too large.")
    media_type = content_type.partition(";")[0].strip().lower()
    try:
        if media_type == FORM:
            return once(read_pairs(body.decode()))
        if media_type == JSON:
            return _json(body)
    except (ValueError, RecursionError) as error:
        raise OAuthError("invalid_request", "The body cannot be read.") from error
    raise OAuthError("invalid_request", f"Send the fields as {FORM}.")


def read_pairs(text: str) -> list[tuple[str, str]]:
    """Return the fields of a form or query, in order; ValueError if it is malformed."""
    return parse_qsl(
        text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=MAX_FIELDS
    )


def once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Return fields by name; OAuthError where one is given more than once (RFC 6749 section 3.2)."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise OAuthError("invalid_request", "A field is given more than once.")
    return fields


def _json(body: bytes) -> dict[str, str]:
    value = json.loads(body, object_pairs_hook=once)
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise OAuthError("invalid_request", "A JSON body must be an object whose values are strings.")
    # UnicodeEncodeError, a ValueError: a lone surrogate is not text.
    "".join(value.values()).encode()
    if value.get("grant_type") not in {None, "client_credentials"}:
        raise OAuthError("invalid_request", f"Send this grant_type as {FORM}.")
    return value


def signed_answer(service: Service, given: Grant) -> dict[str, str | int]:
    """Return the JSON of a token answer, with an id_token for a user's token if the client asks for it."""
    now_s = milliseconds(service.clock()) // 1000
    token = service.signer.id_token(service.configuration, given.issued.bearer, given.nonce, now_s)
    answer = token_answer(given.issued)
    return {**answer, "id_token": token} if token else answer


def token_answer(issued: Issued) -> dict[str, str | int]:
    """Return the JSON of a token answer."""
    bearer = issued.bearer
    answer: dict[str, str | int] = {
        "access_token": issued.access,
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "scope": bearer.scope,
        "rest_api_version": bearer.api_version,
    }
    optional = {"refresh_token": issued.refresh, "patient": bearer.patient}
    return {**answer, **{name: value for name, value in optional.items() if value}}


def info(service: Service, access_token: str) -> dict[str, str | int]:
    """Return the description of an access token; OAuthError if it is not active."""
    stored = _active(service, access_token)
    principal = principal_of(service.configuration, stored) if stored is not None else None
    if stored is None or principal is None:
        raise OAuthError("invalid_request", "The token is not active.")
    return {
        "client_name": service.configuration.clients[stored.client].name or stored.client,
        "client_id": stored.client,
        "expires_in": service.vault.seconds_left(stored),
        "scope": " ".join(principal.scopes),
    }


def user_info(service: Service, authorization: str) -> dict[str, str]:
    """Return the user of a bearer token; OAuthError if the token is not active or not a user's."""
    kind, _, text = authorization.partition(" ")
    stored = _active(service, text.strip()) if kind.lower() == "bearer" else None
    if stored is None:
        raise OAuthError("invalid_token", "Send a valid access token as 'Authorization: Bearer'.", bearer=True)
    if not stored.user:
        raise OAuthError("insufficient_scope", "The token was not issued to a user.", bearer=True)
    user = service.configuration.users[stored.user]
    person = {"fhirUser": f"{service.base(FhirVersion.R4)}/{user.fhir_user}"} if user.fhir_user else {}
    return {
        **person,
        "sub": stored.user,
        "uid": stored.user,
        "name": user.name or stored.user,
        "role": user.role,
        "administrativeRole": user.role,
        "organization": user.tenant,
    }


async def cancel(service: Service, cancelled: str) -> None:
    """Revoke a token, an unknown one without error; OAuthError if none is given."""
    if not cancelled:
        raise OAuthError("invalid_request", "token is missing.")
    await service.vault.revoke(cancelled)


async def introspect(service: Service, fields: Fields, authorization: str) -> dict[str, str | int]:
    """Return the introspection (RFC 7662) of a token for an authenticated client; another tenant's is inactive.

    OAuthError: 401 for a client that is not authenticated, 400 if no token is given.
    """
    if not authorization and not PROOFS & fields.keys():
        raise OAuthError("invalid_client", "Send the client's secret or a signed assertion.", basic=True)
    try:
        caller = await authenticated(service, fields, authorization)
    except OAuthError as error:
        unknown = error.code == "invalid_client"
        raise OAuthError(error.code, error.description, basic=unknown, unproven=error.unproven) from error
    stored = service.vault.find(_token(fields))
    principal = principal_of(service.configuration, stored) if stored else None
    live = stored is not None and service.vault.seconds_left(stored) > 0
    if stored is None or principal is None or not live or principal.tenant != caller.client.tenant:
        return {"active": False}
    answer: dict[str, str | int] = {
        "active": True,
        "client_id": stored.client,
        "sub": stored.user or stored.client,
        "scope": " ".join(principal.scopes),
        "exp": stored.expires_ms // 1000,
    }
    answer |= {"username": stored.user} if stored.user else {}
    answer |= {"patient": stored.patient} if stored.patient else {}
    return {**answer, "token_type": "Bearer"} if stored.kind == TokenKind.ACCESS else answer


async def revoke(service: Service, fields: Fields, authorization: str) -> None:
    """Revoke a client's own token (RFC 7009), an unknown one without error; OAuthError for another client's."""
    caller = await authenticated(service, fields, authorization)
    token = _token(fields)
    stored = service.vault.find(token)
    if stored is not None and stored.client != caller.name:
        raise OAuthError("unauthorized_client", "The token was issued to another client.")
    await service.vault.revoke(token)


def _token(fields: Fields) -> str:
    if not fields.get("token"):
        raise OAuthError("invalid_request", "token is missing.")
    return fields["token"]


def _active(service: Service, text: str) -> StoredToken | None:
    stored = service.vault.find(text)
    if stored is None or stored.kind != TokenKind.ACCESS or service.vault.seconds_left(stored) <= 0:
        return None
    return stored if principal_of(service.configuration, stored) else None
