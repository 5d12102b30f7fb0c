"""Tokens of OAuth 2.0 by a form: client credentials, refresh token, signed assertions; and Google's service accounts.

Each ask reads its secrets anew, so that they can change without a restart.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from engine.config.network import is_loopback
from engine.config.secret import Secret
from engine.config.sign_in import ALGORITHMS, Auth
from engine.deliver.throttling import retry_after_seconds
from engine.deliver.verdict import Failure
from engine.deliver.wire.client import FhirClient, ServerResponse
from engine.deliver.wire.failure import failure_of
from engine.errors import DeliveryError, DestinationError
from engine.security.oauth import (
    JWT_BEARER,
    IssuedToken,
    SigningKey,
    TokenRefusedError,
    UnusableCertificateError,
    UnusableKeyError,
    assertion,
    issued_token,
    signed_claims,
    signing_key,
    thumbprint,
    token_request,
)

GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-healthcare"
# A clock that is further off than this is named where an assertion is refused.
CLOCK_SECONDS: Final = 60.0
_BY_ASSERTION: Final = frozenset(ALGORITHMS)

Ids = Callable[[], str]


def unusable(code: str) -> DestinationError:
    """Return the error of a destination that nobody can sign in to, with its one code."""
    return DestinationError(code, codes=(code,))


def secret_text(reference: Secret | None) -> str:
    """Return a secret as it is now, '' where none is referred to; DestinationError."""
    if reference is None:
        return ""
    try:
        return reference.read()
    except LookupError as error:
        raise unusable("secret-unreadable") from error


async def ask_for_token(
    client: FhirClient, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes, now: datetime
) -> ServerResponse:
    """Send one request for a token; DestinationError where no answer comes, or one that another try may better."""
    try:
        answer = await client.send(method, url, list(headers), body)
    except DestinationError:
        raise
    except DeliveryError as error:
        raise DestinationError("token-unavailable", codes=("token-unavailable", *error.codes)) from error
    if failure_of(answer.status, write=False) is Failure.TRANSIENT:
        codes = ("token-unavailable", f"http-{answer.status}")
        wait = retry_after_seconds(answer.headers.get("retry-after", ""), now)
        raise DestinationError(codes[0], status=answer.status, codes=codes, retry_after_seconds=wait)
    return answer


def read_token(answer: ServerResponse, now: datetime, *, asserted: bool = False) -> IssuedToken:
    """Return what was issued; DestinationError with the codes of a refusal.

    `asserted`: by an assertion, which is good at certain times only, so that clocks that differ are named.
    """
    try:
        return issued_token(answer.status, answer.json, now)
    except TokenRefusedError as error:
        clock = clock_codes(answer.headers.get("date", ""), now) if asserted else ()
        codes = ("token-refused", *error.codes, *clock)
        raise DestinationError(codes[0], status=answer.status, codes=codes) from error


def clock_codes(date: str, now: datetime) -> tuple[str, ...]:
    """Return by which way this machine's clock differs from a Date header, () where it hardly does."""
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, IndexError, TypeError, OverflowError):
        return ()
    ahead = (now - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()
    if abs(ahead) <= CLOCK_SECONDS:
        return ()
    return ("sign-in-clock-ahead",) if ahead > 0 else ("sign-in-clock-behind",)


class TokenEndpoint:
    """A token endpoint that is asked by a form, as the keys of `auth` say."""

    def __init__(self, auth: Auth, client: FhirClient, clock: Callable[[], datetime], new_id: Ids) -> None:
        self._auth = auth
        self._client = client
        self._clock = clock
        self._new_id = new_id
        # The refresh token that came with an answer, and the configured one that it came in place of.
        self._rotated = ("", "")

    async def ask(self) -> tuple[str, float]:
        """Return a new access token and the seconds that it lasts; DestinationError."""
        auth, now = self._auth, self._clock()
        configured = secret_text(auth.refresh_token)
        headers, body = token_request(
            self._form(configured, now), auth.client_id, secret_text(auth.client_secret), auth.method
        )
        answer = await ask_for_token(self._client, "POST", auth.token_url, headers.items(), body, now)
        issued = read_token(answer, self._clock(), asserted=auth.type in _BY_ASSERTION)
        if issued.refresh_token and configured:
            self._rotated = (configured, issued.refresh_token)
        return issued.text, issued.seconds

    def _form(self, configured: str, now: datetime) -> dict[str, str]:
        auth = self._auth
        if configured:
            replaced, newer = self._rotated
            form = {"grant_type": "refresh_token", "refresh_token": newer if replaced == configured else configured}
        else:
            form = {"grant_type": "client_credentials"}
        if auth.type in _BY_ASSERTION:
            form |= self._assertion(now)
        elif auth.audience:
            form["audience"] = auth.audience
        if auth.scope:
            form["scope"] = auth.scope
        return form

    def _assertion(self, now: datetime) -> dict[str, str]:
        auth = self._auth
        key, algorithm = auth_key(auth)
        certificate = auth_certificate(auth, key)
        try:
            return assertion(auth, key, algorithm, now, self._new_id, audience=auth.audience, certificate=certificate)
        except UnusableKeyError as error:
            raise unusable("private-key-unusable") from error


def auth_key(auth: Auth) -> tuple[SigningKey, str]:
    """Return the private key of `auth` and what it signs by; DestinationError."""
    wanted = auth.algorithm or ("PS256" if auth.type == "entra_certificate" else "")
    try:
        return signing_key(secret_text(auth.private_key), wanted=wanted)
    except UnusableKeyError as error:
        raise unusable("private-key-unusable") from error


def auth_certificate(auth: Auth, key: SigningKey) -> str:
    """Return the thumbprint of the certificate of `auth`, '' where there is none; DestinationError."""
    if auth.certificate is None:
        return ""
    try:
        return thumbprint(Path(auth.certificate).read_bytes(), key)
    except (OSError, UnusableCertificateError) as error:
        raise unusable("signing-certificate-unusable") from error


class GoogleServiceAccount:
    """Google's token endpoint, asked by an assertion that a service account's JSON key signs (RFC 7523, 2.1)."""

    def __init__(self, auth: Auth, client: FhirClient, clock: Callable[[], datetime]) -> None:
        self._auth = auth
        self._client = client
        self._clock = clock

    async def ask(self) -> tuple[str, float]:
        """Return a new access token and the seconds that it lasts; DestinationError."""
        now = self._clock()
        url, signed = self._signed(service_account(secret_text(self._auth.key_file)), now)
        headers, body = token_request({"grant_type": JWT_BEARER, "assertion": signed})
        answer = await ask_for_token(self._client, "POST", url, headers.items(), body, now)
        issued = read_token(answer, self._clock(), asserted=True)
        return issued.text, issued.seconds

    def _signed(self, account: dict[str, str], now: datetime) -> tuple[str, str]:
        """Return the token endpoint and the assertion for it."""
        auth, url = self._auth, account["token_uri"]
        claims = {
            "iss": account["client_email"],
            "scope": auth.scope or GOOGLE_SCOPE,
            "aud": auth.audience or url,
        }
        try:
            key, algorithm = signing_key(account["private_key"], wanted="RS256")
            return url, signed_claims(claims, {"kid": account["private_key_id"]}, key, algorithm, now)
        except UnusableKeyError as error:
            raise unusable("private-key-unusable") from error


_ACCOUNT: Final = ("client_email", "private_key", "private_key_id", "token_uri")


def service_account(text: str) -> dict[str, str]:
    """Return what the JSON key of a service account says; DestinationError where it is none, or asks in the clear."""
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        # Not chained: its text has the document with it.
        raise unusable("private-key-unusable") from None
    values = {name: found.get(name) for name in _ACCOUNT} if isinstance(found, dict) else {}
    account = {name: value for name, value in values.items() if isinstance(value, str) and value}
    if len(account) < len(_ACCOUNT) or not _is_private(account["token_uri"]):
        raise unusable("private-key-unusable")
    try:
        signing_key(account["private_key"], wanted="RS256")
    except UnusableKeyError as error:
        raise unusable("private-key-unusable") from error
    return account


def _is_private(url: str) -> bool:
    """Say whether what is sent to a URL stays between two machines."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
