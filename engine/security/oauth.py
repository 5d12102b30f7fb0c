"""The client side of OAuth 2.0 token requests: what proves a client, what is sent, and what is answered."""

import math
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol
from urllib.parse import quote_plus, urlencode

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

ASSERTION_SECONDS: Final = 240
ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
UNSAID_SECONDS: Final = 300.0
SHORTEST_SECONDS: Final = 5.0
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
RSA_ALGORITHMS: Final = ("RS384", "RS256", "RS512", "PS256", "PS384", "PS512")
# By which a key signs where nothing else is asked for.
ALGORITHMS: Final = frozenset({"RS384", *_CURVES.values()})
_CODE: Final = re.compile(r"[a-z_]{1,40}")
_MOST_CODES: Final = 4
SigningKey = RSAKey | ECKey


class UnusableKeyError(Exception):
    """A text is no private key that can sign."""


class UnusableCertificateError(Exception):
    """A text is no certificate, or one of another key."""


class TokenRefusedError(Exception):
    """A token endpoint gives no token; `codes` are those of its answer that are words or numbers of a standard."""

    def __init__(self, codes: tuple[str, ...] = ()) -> None:
        super().__init__("token-refused")
        self.codes = codes


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


@dataclass(frozen=True, slots=True, repr=False)
class IssuedToken:
    """An access token, the seconds that it lasts, and the refresh token that came with it, '' for none."""

    text: str
    seconds: float
    refresh_token: str


def signing_key(text: str, algorithms: Container[str] = ALGORITHMS, wanted: str = "") -> tuple[SigningKey, str]:
    """Return a private key (PEM or JWK) and the one of `algorithms` it signs by; UnusableKeyError where it has none.

    `wanted`: the algorithm to sign by; '' for RS384, or that of the curve.
    """
    allowed: Container[str] = (wanted,) if wanted else algorithms
    for read in (_rsa, _ec):
        try:
            key, offered = read(text)
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        found = [algorithm for algorithm in offered if algorithm in allowed]
        if key.is_private and found:
            return key, found[0]
    raise UnusableKeyError


def thumbprint(certificate: bytes, key: SigningKey) -> str:
    """Return the base64url SHA-256 of a PEM certificate's DER (RFC 7515, 4.1.8); UnusableCertificateError.

    It is one of another key, too, whose assertions nobody would take.
    """
    try:
        first = x509.load_pem_x509_certificates(certificate)[0]
        public = first.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, IndexError) as error:
        raise UnusableCertificateError from error
    if public.strip() != key.as_pem(private=False).strip():
        raise UnusableCertificateError
    return urlsafe_b64encode(first.fingerprint(SHA256())).decode().rstrip("=")


def assertion(
    identity: TokenClient,
    key: SigningKey,
    algorithm: str,
    now: datetime,
    new_id: Callable[[], str],
    *,
    audience: str = "",
    certificate: str = "",
) -> dict[str, str]:
    """Return the form fields by which a client proves itself with its key (RFC 7523); UnusableKeyError.

    `audience`: '' for the token endpoint; `certificate`: the thumbprint of the key's certificate.
    """
    header = {"kid": identity.key_id} if identity.key_id else {}
    if certificate:
        header["x5t#S256"] = certificate
    who = {"iss": identity.client_id, "sub": identity.client_id, "aud": audience or identity.token_url}
    issued = {"nbf": int(now.timestamp())} if certificate else {}
    signed = signed_claims(who | issued | {"jti": new_id()}, header, key, algorithm, now)
    return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": signed}


def signed_claims(
    claims: Mapping[str, Any], header: Mapping[str, str], key: SigningKey, algorithm: str, now: datetime
) -> str:
    """Return claims as a signed JWT that is good for ASSERTION_SECONDS from `now`; UnusableKeyError."""
    issued = int(now.timestamp())
    whole = {**claims, "iat": issued, "exp": issued + ASSERTION_SECONDS}
    try:
        return jwt.encode({"alg": algorithm, "typ": "JWT", **header}, whole, key, algorithms=[algorithm])
    except (JoseError, ValueError) as error:
        raise UnusableKeyError from error


def token_request(
    form: Mapping[str, str], client_id: str = "", client_secret: str = "", method: str = "post"
) -> tuple[dict[str, str], bytes]:
    """Return headers (names in lower case) and body of a token request.

    `client_secret` goes into the form (`post`), or with the id into a header (`basic`): RFC 6749, 2.3.1.
    """
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    fields = dict(form)
    if client_secret and method == "basic":
        headers["authorization"] = basic(quote_plus(client_id), quote_plus(client_secret))
    else:
        fields |= {"client_id": client_id} if client_id else {}
        fields |= {"client_secret": client_secret} if client_secret else {}
    return headers, urlencode(fields).encode()


def basic(username: str, password: str) -> str:
    """Return the Authorization header of HTTP Basic in UTF-8 (RFC 7617)."""
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


def issued_token(status: int, answer: object, now: datetime) -> IssuedToken:
    """Return what a token endpoint issued; TokenRefusedError where its answer holds no token fit for a header.

    The token lasts as `expires_in` says, or the moment `expires_on` of Azure; else UNSAID_SECONDS.
    """
    body = answer if isinstance(answer, dict) else {}
    text = access_token(body)
    if not 200 <= status < 300 or not (text and text.isascii() and text.isprintable()):
        raise TokenRefusedError(refusal_codes(body))
    seconds = _seconds(body.get("expires_in"))
    if math.isnan(seconds):
        seconds = _seconds(body.get("expires_on")) - now.timestamp()
    refresh = body.get("refresh_token")
    return IssuedToken(text, lifetime(seconds), refresh if isinstance(refresh, str) else "")


def lifetime(seconds: float) -> float:
    """Return a credential's seconds as they are relied on: at least SHORTEST_SECONDS, UNSAID_SECONDS for NaN."""
    return UNSAID_SECONDS if math.isnan(seconds) else max(seconds, SHORTEST_SECONDS)


def refusal_codes(answer: object) -> tuple[str, ...]:
    """Return the codes of a token endpoint's refusal: `error` (RFC 6749, 5.2), and the numbers of Entra."""
    body = answer if isinstance(answer, dict) else {}
    code, numbers = body.get("error"), body.get("error_codes")
    named = (code,) if isinstance(code, str) and _CODE.fullmatch(code) else ()
    several = numbers[:_MOST_CODES] if isinstance(numbers, list) else []
    return (*named, *(f"aadsts{number}" for number in several if type(number) is int and 0 < number < 10**9))


def access_token(answer: object) -> str:
    """Return the token in the answer of a token endpoint, '' where it has none."""
    found = answer.get("access_token") if isinstance(answer, dict) else None
    return found if isinstance(found, str) else ""


def _seconds(text: object) -> float:
    if not isinstance(text, str | int | float):
        return math.nan
    try:
        return float(text)
    except (ValueError, OverflowError):
        return math.nan


def _rsa(text: str) -> tuple[RSAKey, tuple[str, ...]]:
    return RSAKey.import_key(text), RSA_ALGORITHMS


def _ec(text: str) -> tuple[ECKey, tuple[str, ...]]:
    key = ECKey.import_key(text)
    return key, (_CURVES[key.curve_name],)
