"""What proves the engine to a destination, request by request: a header that is kept, or a signature of its own.

What is got elsewhere (a token, an access key) is renewed when 80 % of its life is over; one renewal is under way at a
time and all who need it share it. After one that failed the next waits, 1 second and then twice as long each time.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from engine.config.sign_in import Auth
from engine.deliver.wire.client import FhirClient
from engine.deliver.wire.cloud_credentials import AwsKeys, GoogleMetadata, ManagedIdentity
from engine.deliver.wire.oauth import GoogleServiceAccount, TokenEndpoint, secret_text, unusable
from engine.errors import DestinationError
from engine.security.oauth import SHORTEST_SECONDS, basic
from engine.security.sigv4 import AwsCredentials, AwsSigner

REFRESH_AT: Final = 0.8
FIRST_WAIT_SECONDS: Final = 1.0
LONGEST_WAIT_SECONDS: Final = 60.0
# How long a metadata service, which is on the same machine, may take.
METADATA_SECONDS: Final = 5.0
# Failures that somebody else's answer, or its absence, is the reason of; others are found without asking.
_ASKED: Final = frozenset({"token-refused", "token-unavailable"})
_MOST_DOUBLINGS: Final = 16

Header = tuple[str, str]
Authorization = tuple[Header, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class HeldCredential(Generic[T]):
    """What was got, and when, on the monotonic clock, it was, is to be renewed and ends."""

    value: T
    since: float
    renew_at: float
    ends_at: float


class CredentialCache(Generic[T]):
    """One credential, held in memory only; `ask` gets a new one and the seconds that it lasts."""

    def __init__(self, ask: Callable[[], Awaitable[tuple[T, float]]], ticks: Callable[[], float]) -> None:
        self._ask = ask
        self._ticks = ticks
        self._held: HeldCredential[T] | None = None
        self._renewal: asyncio.Task[T] | None = None
        self._failure: DestinationError | None = None
        self._failures = 0
        self._ask_at = 0.0

    async def get(self) -> T:
        """Return the credential, renewed where it is time; DestinationError where none can be had."""
        held, now = self._held, self._ticks()
        if held is not None and now < held.renew_at:
            return held.value
        try:
            return await self._renewed(now)
        except DestinationError:
            if held is not None and now < held.ends_at:
                return held.value
            raise

    def refused(self, matches: Callable[[T], bool], *, older_than: float = 0.0) -> bool:
        """Let go of a credential that a server refused; True where another one may be had by asking again."""
        held = self._held
        if held is None or not matches(held.value):
            return True
        if self._ticks() - held.since < older_than:
            return False
        self._held = None
        return True

    def retry_now(self) -> None:
        """Let the next one who needs it ask at once."""
        self._failure = None

    async def close(self) -> None:
        """Stop a renewal that is under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    async def _renewed(self, now: float) -> T:
        failure = self._failure
        if self._renewal is None or self._renewal.done():
            if failure is not None and now < self._ask_at:
                wait = self._ask_at - now
                raise DestinationError(
                    str(failure), status=failure.status, codes=failure.codes, retry_after_seconds=wait
                )
            self._renewal = asyncio.create_task(self._renew())
            self._renewal.add_done_callback(_noted)
        return await asyncio.shield(self._renewal)

    async def _renew(self) -> T:
        try:
            value, seconds = await self._ask()
        except DestinationError as error:
            if str(error) in _ASKED:
                self._failed(error)
            raise
        self._failure, self._failures = None, 0
        now = self._ticks()
        self._held = HeldCredential(value, now, now + REFRESH_AT * seconds, now + seconds)
        return value

    def _failed(self, error: DestinationError) -> None:
        wait = FIRST_WAIT_SECONDS * 2 ** min(self._failures, _MOST_DOUBLINGS)
        error.retry_after_seconds = max(min(wait, LONGEST_WAIT_SECONDS), error.retry_after_seconds)
        self._failure, self._failures = error, self._failures + 1
        self._ask_at = self._ticks() + error.retry_after_seconds


def _noted(renewal: "asyncio.Task[T]") -> None:
    """Look at a renewal's error, for which nobody may be waiting any more."""
    if not renewal.cancelled():
        renewal.exception()


def _header_text(text: str) -> str:
    """Return what fits into a header; DestinationError, as any other text is no fault of a message."""
    if not (text.isascii() and text.isprintable()):
        raise unusable("secret-unreadable")
    return text


class Authorizer:
    """Proves the engine to one destination, as `auth` says.

    `clock` tells the time of day for signatures, `ticks` monotonic seconds, `new_id` makes the `jti` of an assertion.
    """

    def __init__(
        self,
        auth: Auth,
        client: FhirClient,
        *,
        clock: Callable[[], datetime],
        ticks: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self._auth = auth
        self._clock = clock
        self._local = FhirClient(request_seconds=METADATA_SECONDS, journaled=False)
        self._tokens: CredentialCache[str] | None = None
        self._keys: CredentialCache[AwsCredentials] | None = None
        self._signer = AwsSigner(auth.region, auth.service)
        self._basic = ("", "")
        if auth.type == "aws_sigv4":
            self._keys = CredentialCache(AwsKeys(auth, self._local, clock).ask, ticks)
        elif ask := self._asker(client, new_id):
            self._tokens = CredentialCache(ask, ticks)

    async def authorization(self, method: str, url: str, headers: Sequence[Header], body: bytes) -> Authorization:
        """Return the headers that prove the engine for one request, () where the destination asks for none.

        Raises DestinationError where they cannot be had; its codes say why.
        """
        if self._tokens is not None:
            return (("Authorization", f"Bearer {await self._tokens.get()}"),)
        if self._keys is not None:
            return self._signer.sign(await self._keys.get(), method, url, headers, body, self._clock())
        if self._auth.type == "bearer":
            return (("Authorization", f"Bearer {_header_text(secret_text(self._auth.token))}"),)
        return (("Authorization", self._basic_header()),) if self._auth.type == "basic" else ()

    def refused(self, authorization: Authorization, status: int) -> bool:
        """Note that the server refused these headers; True where others may be had by asking again.

        AWS refuses by 403 what others refuse by 401, and the lack of a permission as well: a key is read again for
        that where it was not read just now.
        """
        sent = dict(authorization)
        header = sent.get("Authorization", "")
        if self._keys is not None:
            token = sent.get("X-Amz-Security-Token", "")
            return self._keys.refused(
                lambda keys: keys.session_token == token and f"={keys.access_key_id}/" in header,
                older_than=SHORTEST_SECONDS,
            )
        if self._tokens is None or status != 401:
            return False
        return self._tokens.refused(lambda token: header == f"Bearer {token}")

    def retry_now(self) -> None:
        """Ask at once for what could not be had, whenever it is needed next."""
        for cache in (self._tokens, self._keys):
            if cache is not None:
                cache.retry_now()

    async def close(self) -> None:
        """Stop what is under way."""
        for cache in (self._tokens, self._keys):
            if cache is not None:
                await cache.close()
        await self._local.close()

    def _asker(
        self, client: FhirClient, new_id: Callable[[], str]
    ) -> Callable[[], Awaitable[tuple[str, float]]] | None:
        """Return what gets an access token; None for a kind that needs none."""
        auth, clock = self._auth, self._clock
        match auth.type:
            case "client_credentials" | "private_key_jwt" | "refresh_token" | "entra_certificate":
                return TokenEndpoint(auth, client, clock, new_id).ask
            case "google_service_account":
                return GoogleServiceAccount(auth, client, clock).ask
            case "google_metadata":
                return GoogleMetadata(auth, self._local, clock).ask
            case "managed_identity":
                return ManagedIdentity(auth, self._local, clock).ask
        return None

    def _basic_header(self) -> str:
        """Return the header of HTTP Basic, made anew where the password has changed."""
        password = secret_text(self._auth.password)
        known, header = self._basic
        if not header or known != password:
            header = basic(self._auth.username, password)
            self._basic = (password, header)
        return header
