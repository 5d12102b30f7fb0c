"""The access token for another FHIR server: OAuth2 client credentials, by secret or by a signed assertion (SMART)."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final
from urllib.parse import urlencode

import orjson

from engine.config.connector import ConnectorAuth
from engine.config.secret import Secret
from engine.interchange.kernel.outbound import OutboundError, OutboundReply
from engine.security.oauth import UnusableKeyError, access_token, assertion, signing_key

Post = Callable[[str, dict[str, str], bytes], Awaitable[OutboundReply]]

ALGORITHMS: Final = frozenset({"ES384", "RS384"})  # those of SMART backend services
FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}


async def bearer(auth: ConnectorAuth, post: Post, now: datetime, new_id: Callable[[], str]) -> dict[str, str]:
    """Return the authorization header, {} if no auth is configured; OutboundError."""
    if not auth.given:
        return {}
    form = {"grant_type": "client_credentials", "client_id": auth.client_id}
    if auth.scope:
        form["scope"] = auth.scope
    if auth.client_secret is not None:
        form["client_secret"] = _read(auth.client_secret)
    if auth.private_key is not None:
        form |= _proof(auth, _read(auth.private_key), now, new_id)
    reply = await post(auth.token_url, FORM, urlencode(form).encode())
    token = _token(reply)
    if reply.status != 200 or not token:
        raise OutboundError(f"gives no token ({reply.status}); check client_id, its proof and scope")
    return {"authorization": f"Bearer {token}"}


def _token(reply: OutboundReply) -> str:
    try:
        answer = orjson.loads(reply.body)
    except ValueError:
        return ""
    token = access_token(answer)
    return token if token.isascii() and token.isprintable() else ""


def _read(secret: Secret) -> str:
    try:
        return secret.read()
    except LookupError as error:
        raise OutboundError("is configured with a secret that cannot be read") from error


def _proof(auth: ConnectorAuth, text: str, now: datetime, new_id: Callable[[], str]) -> dict[str, str]:
    try:
        return assertion(auth, *signing_key(text, ALGORITHMS), now, new_id)
    except UnusableKeyError as error:
        text = "is configured with a private_key that signs neither ES384 (P-384) nor RS384 (RSA)"
        raise OutboundError(text) from error
