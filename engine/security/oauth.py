"""The client side of OAuth 2.0 token requests: what proves a client, and what a token endpoint answers."""

from collections.abc import Callable, Container
from datetime import datetime
from typing import Any, Final, Protocol

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

ASSERTION_SECONDS: Final = 240
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = frozenset({"RS384", *_CURVES.values()})
SigningKey = RSAKey | ECKey


class UnusableKeyError(Exception):
    """A text is no private key that can sign."""


class TokenClient(Protocol):
    """A client as a token endpoint knows it: an id, the endpoint's URL, and the id of its key, '' for none."""

    @property
    def client_id(self) -> str:
        """Its id."""

    @property
    def token_url(self) -> str:
        """The endpoint, the audience of its assertions."""

    @property
    def key_id(self) -> str:
        """The id of its key."""


def signing_key(text: str, algorithms: Container[str] = ALGORITHMS) -> tuple[SigningKey, str]:
    """Return a private key (PEM or JWK) and the one of `algorithms` it signs by; UnusableKeyError where it has none."""
    for read in (_rsa, _ec):
        try:
            key, algorithm = read(text)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if key.is_private and algorithm in algorithms:
            return key, algorithm
    raise UnusableKeyError


def assertion(
    identity: TokenClient, key: SigningKey, algorithm: str, now: datetime, new_id: Callable[[], str]
) -> dict[str, str]:
    """Return the form fields by which a client proves itself with its key (RFC 7523); UnusableKeyError."""
    header = {"alg": algorithm, "typ": "JWT"} | ({"kid": identity.key_id} if identity.key_id else {})
    issued = int(now.timestamp())
    claims: dict[str, Any] = {
        "iss": identity.client_id,
        "sub": identity.client_id,
        "aud": identity.token_url,
        "iat": issued,
        "exp": issued + ASSERTION_SECONDS,
        "jti": new_id(),
    }
    try:
        signed = jwt.encode(header, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError) as error:
        raise UnusableKeyError from error
    return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": signed}


def access_token(answer: object) -> str:
    """Return the token in the answer of a token endpoint, '' where it has none."""
    found = answer.get("access_token") if isinstance(answer, dict) else None
    return found if isinstance(found, str) else ""


def _rsa(text: str) -> tuple[RSAKey, str]:
    return RSAKey.import_key(text), "RS384"


def _ec(text: str) -> tuple[ECKey, str]:
    key = ECKey.import_key(text)
    return key, _CURVES[key.curve_name]
