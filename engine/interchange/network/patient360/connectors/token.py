"""The access token for another FHIR server: OAuth2 client credentials, by secret or by a signed assertion (SMART)."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

import orjson
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from engine.config.connector import ConnectorAuth
from engine.config.secret import Secret
from engine.interchange.kernel.outbound import OutboundError, Reply

Post = Callable[[str, dict[str, str], bytes], Awaitable[Reply]]

ASSERTION_SECONDS: Final = 240
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}


async def bearer(auth: ConnectorAuth, post: Post, now: datetime, new_id: Callable[[], str]) -> dict[str, str]:
    """Return the header that lets the service in, none where nothing is to be proved; OutboundError."""
    if not auth.given:
        return {}
    form = {"grant_type": "client_credentials", "client_id": auth.client_id}
    if auth.scope:
        form["scope"] = auth.scope
    if auth.client_secret is not None:
        form["client_secret"] = _read(auth.client_secret)
    if auth.private_key is not None:
        claims = _claims(auth, now, new_id())
        form |= {"client_assertion_type": ASSERTION_TYPE, "client_assertion": _signed(auth, claims)}
    reply = await post(auth.token_url, FORM, urlencode(form).encode())
    token = _token(reply)
    if reply.status != 200 or not token:
        raise OutboundError(f"gives no token ({reply.status}); check client_id, its proof and scope")
    return {"authorization": f"Bearer {token}"}


def _token(reply: Reply) -> str:
    try:
        answer = orjson.loads(reply.body)
    except ValueError:
        return ""
    found = answer.get("access_token") if isinstance(answer, dict) else None
    return found if isinstance(found, str) and found.isascii() and found.isprintable() else ""


def _read(secret: Secret) -> str:
    try:
        return secret.read()
    except LookupError as error:
        raise OutboundError("is configured with a secret that cannot be read") from error


def _claims(auth: ConnectorAuth, now: datetime, token_id: str) -> dict[str, Any]:
    issued = int(now.timestamp())
    who = {"iss": auth.client_id, "sub": auth.client_id, "aud": auth.token_url}
    return {**who, "iat": issued, "exp": issued + ASSERTION_SECONDS, "jti": token_id}


def _signed(auth: ConnectorAuth, claims: dict[str, Any]) -> str:
    text = _read(auth.private_key) if auth.private_key is not None else ""
    key_id = {"kid": auth.key_id} if auth.key_id else {}
    for kind, algorithm in ((ECKey, "ES384"), (RSAKey, "RS384")):
        try:
            key = kind.import_key(text)
            return jwt.encode({"alg": algorithm, "typ": "JWT", **key_id}, claims, key, algorithms=[algorithm])
        except (JoseError, ValueError, TypeError):
            continue
    raise OutboundError("is configured with a private_key that signs neither ES384 (P-384) nor RS384 (RSA)")
