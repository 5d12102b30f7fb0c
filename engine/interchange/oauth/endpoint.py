"""The token endpoints: /oauth/token, /oauth/info and /oauth/cancel."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

import orjson

from engine.config.account import Client, Role
from engine.interchange.oauth.fault import OAuthError
from engine.interchange.oauth.scope import covers, granted, right
from engine.interchange.oauth.vault import Issued, TokenKind
from engine.interchange.service import Service

Fields = Mapping[str, str]

FORM: Final = "application/x-www-form-urlencoded"
JSON: Final = "application/json"
API_VERSIONS: Final = {
    "2023-01-01": "2023-01-01",
    "2025-06-01": "2025-06-01",
    "01-01-2023": "2023-01-01",
    "06-01-2025": "2025-06-01",
}
GRANT_TYPES: Final = ("client_credentials", "refresh_token")


def parse_fields(content_type: str, body: bytes | None) -> dict[str, str]:
    """Return the fields of a token request, form-encoded or JSON; OAuthError for anything else. None: too large."""
    if body is None:
        raise OAuthError("invalid_request", "The body is too large.")
    media_type = content_type.partition(";")[0].strip().lower()
    try:
        if media_type == FORM:
            return _once(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=50))
        if media_type == JSON:
            return _json(body)
    except ValueError as error:
        raise OAuthError("invalid_request", "The body cannot be read.") from error
    raise OAuthError("invalid_request", f"Send the fields as {FORM}.")


def _once(pairs: list[tuple[str, str]]) -> dict[str, str]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise OAuthError("invalid_request", "A field is given more than once.")
    return fields


def _json(body: bytes) -> dict[str, str]:
    value = orjson.loads(body)
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise OAuthError("invalid_request", "A JSON body must be an object of strings.")
    if value.get("grant_type") not in {None, "client_credentials"}:
        raise OAuthError("invalid_request", f"Send this grant_type as {FORM}.")
    return value


async def token(service: Service, fields: Fields, authorization: str) -> Issued:
    """Return new tokens for a token request; OAuthError for what is refused."""
    grant = fields.get("grant_type")
    if not grant:
        raise OAuthError("invalid_request", "grant_type is missing.")
    name, client = _authenticate(service, fields, authorization)
    if grant not in GRANT_TYPES:
        raise OAuthError("unsupported_grant_type", "Use client_credentials or refresh_token.")
    if grant == "refresh_token":
        return await _refresh(service, name, fields)
    if grant not in client.grants:
        raise OAuthError("unauthorized_client", "The client may not use this grant.")
    scope = requested_scope(client, fields.get("scope", ""))
    return await service.vault.issue(name, scope, api_version(service, client, fields), refresh=False)


def requested_scope(client: Client, scope: str) -> str:
    """Return the scopes a client is given of those it asks for; OAuthError where none is left."""
    asked = tuple(dict.fromkeys(scope.split()))
    if not asked:
        if client.role is Role.SYSTEM_INTEGRATION or not client.scopes:
            raise OAuthError("invalid_scope", "Name the scopes; this client has no default.")
        asked = client.scopes
    if any(right(one) is None for one in asked):
        raise OAuthError("invalid_scope", "The request names something that is no scope.")
    given = granted(client.scopes, asked)
    if not given:
        raise OAuthError("invalid_scope", "The client is registered for none of these scopes.")
    return " ".join(given)


def api_version(service: Service, client: Client, fields: Fields) -> str:
    """Return the REST API version that a token is bound to."""
    asked = fields.get("rest_api_version")
    if asked is None:
        return service.tenant(client.tenant).rest_api_version
    if asked not in API_VERSIONS:
        raise OAuthError("unsupported_api_version", f"Supported: {', '.join(sorted(set(API_VERSIONS.values())))}.")
    return API_VERSIONS[asked]


def token_answer(issued: Issued) -> dict[str, str | int]:
    """Return the JSON of a token answer."""
    answer: dict[str, str | int] = {
        "access_token": issued.access,
        "token_type": "Bearer",
        "expires_in": issued.expires_in,
        "scope": issued.scope,
        "rest_api_version": issued.api_version,
    }
    return {**answer, "refresh_token": issued.refresh} if issued.refresh else answer


def info(service: Service, access_token: str) -> dict[str, str | int]:
    """Return what is to be told of an access token; OAuthError for one that is not active."""
    found = service.vault.find(access_token)
    if found is None or found.kind != TokenKind.ACCESS or service.vault.seconds_left(found) <= 0:
        raise OAuthError("invalid_request", "The token is not active.")
    client = service.configuration.clients.get(found.client)
    return {
        "client_name": client.name if client and client.name else found.client,
        "client_id": found.client,
        "expires_in": service.vault.seconds_left(found),
        "scope": found.scope,
    }


async def cancel(service: Service, cancelled: str) -> None:
    """Revoke a token."""
    if not cancelled:
        raise OAuthError("invalid_request", "token is missing.")
    await service.vault.revoke(cancelled)


async def _refresh(service: Service, name: str, fields: Fields) -> Issued:
    old = fields.get("refresh_token")
    if not old:
        raise OAuthError("invalid_request", "refresh_token is missing.")
    found = service.vault.find(old)
    asked = tuple(dict.fromkeys(fields.get("scope", "").split()))
    own = found.scope.split() if found is not None and found.client == name else list(asked)
    if not all(any(covers(one, wanted) for one in own) for wanted in asked):
        raise OAuthError("invalid_scope", "A refresh may only narrow the scope.")
    issued = await service.vault.exchange(old, name, " ".join(asked))
    if issued is None:
        raise OAuthError("invalid_grant", "The refresh token cannot be used; start a new authorization.")
    return issued


def _authenticate(service: Service, fields: Fields, authorization: str) -> tuple[str, Client]:
    basic = authorization.lower().startswith("basic ")
    if basic and "client_secret" in fields:
        raise OAuthError("invalid_request", "Authenticate in one way only.")
    name, secret = _basic(authorization) if basic else (fields.get("client_id", ""), fields.get("client_secret", ""))
    if not basic and not (name and secret):
        raise OAuthError("invalid_request", "client_id and client_secret are missing.")
    client = service.configuration.clients.get(name)
    try:
        expected = client.secret.read() if client and client.secret else ""
    except LookupError:
        expected = ""
    right_one = any(hmac.compare_digest(expected.encode(), text.encode()) for text in (secret, unquote_plus(secret)))
    if client is None or not expected or not right_one:
        raise OAuthError("invalid_client", "Client id or secret is wrong.", basic=basic)
    return name, client


def _basic(authorization: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(authorization[6:].strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return unquote_plus(name), secret
