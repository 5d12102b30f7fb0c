"""The token endpoints: request fields, token answers, token and user information."""

import json
from typing import Final
from urllib.parse import parse_qsl

from engine.fhir.schema import FhirVersion
from engine.interchange.core.service import Service
from engine.interchange.store.transaction import milliseconds
from engine.interchange.tokens.oauth.account import principal_of
from engine.interchange.tokens.oauth.fault import OAuthError
from engine.interchange.tokens.oauth.vault import Issued, StoredToken, TokenKind
from engine.interchange.web.oauth.authentication import Fields, authenticated
from engine.interchange.web.oauth.grants import Grant

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
