"""Client authentication: a secret, a signed assertion, or PKCE alone for a public client."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus

from engine.config.account import Client
from engine.config.secret import Secret
from engine.interchange.core.service import Service
from engine.interchange.tokens import assertion
from engine.interchange.tokens.assertion import ExpectedClaims, ForgedAssertionError, RefusedAssertionError
from engine.interchange.tokens.fault import OAuthError

Fields = Mapping[str, str]

# SMART, "Backend Services": a client assertion expires in five minutes at most.
LONGEST_ASSERTION_SECONDS: Final = 300


@dataclass(frozen=True, slots=True)
class Caller:
    """The calling client: its name and its configuration."""

    name: str
    client: Client


async def authenticated(service: Service, fields: Fields, authorization: str) -> Caller:
    """Return the authenticated client of a token request; OAuthError for none, or two methods at once."""
    basic = authorization[:6].lower() == "basic "
    ways = [basic, bool(fields.get("client_secret")), "client_assertion" in fields]
    if sum(ways) > 1:
        raise OAuthError("invalid_request", "Authenticate in one way only.")
    if "client_assertion" in fields:
        return await _by_assertion(service, fields)
    name, secret = _basic(authorization) if basic else (fields.get("client_id", ""), fields.get("client_secret", ""))
    if not basic and not name:
        raise OAuthError("invalid_client", "The client does not prove itself: send client_id and client_secret.")
    client = service.configuration.clients.get(name)
    if client is None or not _proves(client, secret):
        raise OAuthError("invalid_client", "Client id or secret is wrong.", basic=basic, unproven=True)
    return _enabled(Caller(name, client), basic=basic)


def named(service: Service, fields: Fields) -> Caller:
    """Return the client that a request names, not authenticated; OAuthError if it is unknown."""
    name = fields.get("client_id", "")
    if not name:
        raise OAuthError("invalid_request", "client_id is missing.")
    client = service.configuration.clients.get(name)
    if client is None:
        raise OAuthError("invalid_client", "No client is registered under this client_id.")
    return _enabled(Caller(name, client))


def _enabled(caller: Caller, *, basic: bool = False) -> Caller:
    """Return the client unless it is disabled; OAuthError."""
    if caller.client.disabled:
        raise OAuthError("invalid_client", "The client is disabled.", basic=basic)
    return caller


def claimed(service: Service, fields: Fields, authorization: str) -> Caller | None:
    """Return the client that a request claims, authenticated or not; None if it is unknown."""
    name = _basic(authorization)[0] if authorization[:6].lower() == "basic " else fields.get("client_id", "")
    name = name or assertion.claimed_subject(fields.get("client_assertion", ""))
    client = service.configuration.clients.get(name)
    return Caller(name, client) if client is not None else None


def token_endpoint(service: Service) -> str:
    """Return the expected audience of an assertion."""
    return f"{service.configuration.token_url}/oauth/token"


async def _by_assertion(service: Service, fields: Fields) -> Caller:
    text = fields["client_assertion"]
    name = fields.get("client_id") or assertion.claimed_subject(text)
    client = service.configuration.clients.get(name)
    if client is None or fields.get("client_assertion_type") != assertion.TYPE:
        raise OAuthError("invalid_client", "The client assertion is refused: client or type is unknown.")
    expected = ExpectedClaims(name, token_endpoint(service), LONGEST_ASSERTION_SECONDS)
    try:
        read = assertion.verify(text, client, expected, service.clock())
    except RefusedAssertionError as error:
        forged = isinstance(error, ForgedAssertionError)
        raise OAuthError("invalid_client", f"The client assertion is refused: {error}.", unproven=forged) from error
    if read.subject != name or not read.id:
        raise OAuthError(
            "invalid_client", "The client assertion is refused: sub must be the client_id, and jti is required."
        )
    if not await assertion.spend(service.store, service.clock, name, read):
        raise OAuthError("invalid_client", "The client assertion has been used before.")
    return _enabled(Caller(name, client))


def _proves(client: Client, secret: str) -> bool:
    """Say whether a secret is the client's; a public client has and sends none."""
    if client.secret is None:
        return client.public and not secret
    expected = _text(client.secret)
    same = [hmac.compare_digest(expected.encode(), sent.encode()) for sent in (secret, unquote_plus(secret))]
    return bool(expected) and any(same)


def _text(secret: Secret) -> str:
    try:
        return secret.read()
    except LookupError:
        return ""


def _basic(authorization: str) -> tuple[str, str]:
    try:
        name, _, secret = base64.b64decode(authorization[6:].strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return unquote_plus(name), secret
