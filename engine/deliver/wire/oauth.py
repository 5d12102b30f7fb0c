"""Access tokens: bearer, OAuth2 client credentials, refresh token, and SMART backend services (private_key_jwt).

A token is renewed when 80 % of its life is over; one renewal is under way at a time and all who need it share it.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from engine.config.destination import Auth
from engine.deliver.verdict import Failure
from engine.deliver.wire.client import FhirClient, ServerResponse
from engine.deliver.wire.failure import failure_of
from engine.errors import DeliveryError, DestinationError
from engine.security.oauth import UnusableKeyError, access_token, assertion, signing_key

REFRESH_AT: Final = 0.8
UNSAID_SECONDS: Final = 300.0
SHORTEST_SECONDS: Final = 5.0
_CODE: Final = re.compile(r"[a-z_]{1,40}")


@dataclass(frozen=True, slots=True, repr=False)
class AccessToken:
    """An access token and when, on the monotonic clock, it is to be renewed and ends."""

    text: str
    renew_at: float
    ends_at: float


class Tokens:
    """The access token of one destination, held in memory only.

    `clock` tells the time of day for assertions, `ticks` monotonic seconds, `new_id` makes the `jti` of an assertion.
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
        self._client = client
        self._clock = clock
        self._ticks = ticks
        self._new_id = new_id
        self._token: AccessToken | None = None
        self._renewal: asyncio.Task[AccessToken] | None = None
        self._rotated = ""

    async def header(self) -> str:
        """Return the Authorization header, empty where the destination asks for none.

        Raises DestinationError where no token can be had; its codes say why.
        """
        if self._auth.type == "none":
            return ""
        if self._auth.type == "bearer":
            return f"Bearer {_secret(self._auth.token)}"
        token, now = self._token, self._ticks()
        if token is None or now >= token.renew_at:
            token = await self._renewed(token, now)
        return f"Bearer {token.text}"

    def refused(self, header: str) -> bool:
        """Note that the server answered 401 to this header; True where another token may be had by asking again."""
        if self._auth.type in {"none", "bearer"}:
            return False
        if self._token is not None and header == f"Bearer {self._token.text}":
            self._token = None
        return True

    async def close(self) -> None:
        """Stop a renewal that is under way."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    async def _renewed(self, token: AccessToken | None, now: float) -> AccessToken:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._ask())
        try:
            return await asyncio.shield(self._renewal)
        except DestinationError:
            if token is not None and now < token.ends_at:
                return token
            raise

    async def _ask(self) -> AccessToken:
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
        try:
            answer = await self._client.send("POST", self._auth.token_url, headers, urlencode(self._form()).encode())
        except DestinationError:
            raise
        except DeliveryError as error:
            raise DestinationError("token-unavailable", codes=("token-unavailable", *error.codes)) from error
        self._token = self._read(answer)
        return self._token

    def _form(self) -> dict[str, str]:
        auth = self._auth
        refreshing = auth.type == "refresh_token"
        form = {"grant_type": "refresh_token" if refreshing else "client_credentials", "client_id": auth.client_id}
        if refreshing:
            form["refresh_token"] = self._rotated or _secret(auth.refresh_token)
        if auth.client_secret is not None:
            form["client_secret"] = _secret(auth.client_secret)
        if auth.type == "private_key_jwt":
            form |= self._assertion()
        if auth.scope:
            form["scope"] = auth.scope
        return form

    def _assertion(self) -> dict[str, str]:
        text = _secret(self._auth.private_key)
        try:
            return assertion(self._auth, *signing_key(text), self._clock(), self._new_id)
        except UnusableKeyError as error:
            raise DestinationError("private-key-unusable", codes=("private-key-unusable",)) from error

    def _read(self, answer: ServerResponse) -> AccessToken:
        body = answer.json if isinstance(answer.json, dict) else {}
        text = access_token(body)
        if failure_of(answer.status, write=False) is not Failure.NONE or not text:
            raise DestinationError("token-refused", status=answer.status, codes=("token-refused", *_error(body)))
        if isinstance(body.get("refresh_token"), str) and self._auth.type == "refresh_token":
            self._rotated = body["refresh_token"]
        life, now = _life(body.get("expires_in")), self._ticks()
        return AccessToken(text, now + REFRESH_AT * life, now + life)


def _life(expires_in: Any) -> float:
    try:
        seconds = float(expires_in)
    except (TypeError, ValueError):
        return UNSAID_SECONDS
    return max(seconds, SHORTEST_SECONDS) if seconds == seconds else UNSAID_SECONDS  # noqa: PLR0124 (NaN)


def _error(body: dict[str, Any]) -> tuple[str, ...]:
    code = body.get("error")
    return (code,) if isinstance(code, str) and _CODE.fullmatch(code) else ()


def _secret(reference: Any) -> str:
    try:
        return str(reference.read())
    except LookupError as error:
        raise DestinationError("secret-unreadable", codes=("secret-unreadable",)) from error
