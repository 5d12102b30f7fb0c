"""Outbound HTTP: every connection of the service is opened and counted here.

TLS is always verified, redirects are not followed, the environment's proxies are ignored, and answers are limited.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import httpx

from engine.errors import ServiceError
from engine.http.tls import client_context

CONNECT_SECONDS: Final = 10.0
# Longer idle connections are not reused: the server may be closing them.
LIMITS: Final = httpx.Limits(keepalive_expiry=2.0)
# Maximum bytes of an unused body that are read to keep its connection open.
MOST_UNREAD: Final = 16_384
_context: Final = cache(client_context)
OPENED: Final = "connection.connect_tcp.started"
# Errors of a connection that the server has closed.
BROKEN: Final = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError, httpx.CloseError)
# The texts of foreign errors; the first match counts.
REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (httpx.ConnectTimeout, "does not take connections (timeout)"),
    (httpx.ConnectError, "cannot be reached, or its certificate is not trusted"),
    (httpx.TimeoutException, "did not answer in time"),
    (httpx.DecodingError, "sent an answer that cannot be read"),
    (httpx.TransportError, "broke off the answer"),
    (httpx.InvalidURL, "has an address that cannot be asked"),
    # anyio reads the peer of a connection that was reset as it opened and has no socket any more.
    (AttributeError, "broke off the connection"),
)


Trace = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class OutboundError(ServiceError):
    """Another machine gave no usable answer; the text says why, without data of the request."""


@dataclass(frozen=True, slots=True)
class OutboundReply:
    """The answer of another machine; header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class OutboundPeer:
    """An open client for another machine."""

    def __init__(self, client: httpx.AsyncClient, trace: Trace) -> None:
        self._client = client
        self._trace = trace

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, most: int) -> OutboundReply:
        """Send a request and return the answer of any status, `most` bytes at most; OutboundError."""
        try:
            async with self._client.stream(
                method, url, headers=headers, content=body, extensions={"trace": self._trace}
            ) as answer:
                parts: list[bytes] = []
                size = 0
                async for part in answer.aiter_bytes():
                    size += len(part)
                    if size > most:
                        raise OutboundError("sent more than is read")
                    parts.append(part)
                return OutboundReply(answer.status_code, answer.headers, b"".join(parts))
        except tuple(kind for kind, _ in REASONS) as error:
            raise OutboundError(next(text for kind, text in REASONS if isinstance(error, kind))) from error

    async def post_to(self, address: str, url: str, headers: Mapping[str, str], body: bytes) -> int:
        """Post to one IP address of the host in `url`, and return the status; OutboundError.

        The certificate must match the host. If a kept connection breaks, as the server has just closed it, the request
        is sent on a new one: it may arrive twice.
        """
        opened = False

        async def trace(event: str, info: Mapping[str, Any]) -> None:
            nonlocal opened
            opened = opened or event == OPENED
            await self._trace(event, info)

        try:
            try:
                return await self._post(address, url, headers, body, trace)
            except BROKEN:
                if opened:
                    raise
                return await self._post(address, url, headers, body, trace)
        except tuple(kind for kind, _ in REASONS) as error:
            raise OutboundError(next(text for kind, text in REASONS if isinstance(error, kind))) from error

    async def _post(self, address: str, url: str, headers: Mapping[str, str], body: bytes, trace: Trace) -> int:
        """Post once; reads only as much of the answer as lets the connection be reused."""
        parts = httpx.URL(url)
        sent = {**headers, "host": parts.netloc.decode("ascii")}
        extensions = {"trace": trace, "sni_hostname": parts.host}
        at = parts.copy_with(host=address)
        async with self._client.stream("POST", at, headers=sent, content=body, extensions=extensions) as answer:
            if int(answer.headers.get("content-length", MOST_UNREAD + 1)) <= MOST_UNREAD:
                with suppress(*(kind for kind, _ in REASONS)):
                    async for _ in answer.aiter_raw():
                        pass
            return answer.status_code


class Outbound:
    """Outbound connections of one service: `connections` counts those begun since its start."""

    def __init__(self) -> None:
        self.connections = 0

    @asynccontextmanager
    async def peer(
        self, ca_file: str | None, seconds: float, *, also_public: bool = False
    ) -> AsyncIterator[OutboundPeer]:
        """Open a client for another machine; OutboundError if `ca_file` cannot be used.

        The authorities of `ca_file` are trusted instead of the system's, or in addition to them (`also_public`).
        """
        try:
            context = _context(ca_file, also_public=also_public)
        except (OSError, ssl.SSLError) as error:
            raise OutboundError("has a ca_file that cannot be used") from error
        timeout = httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        async with httpx.AsyncClient(
            verify=context, trust_env=False, follow_redirects=False, timeout=timeout, limits=LIMITS
        ) as client:
            yield OutboundPeer(client, self._trace)

    async def _trace(self, event: str, _info: Mapping[str, Any]) -> None:
        self.connections += event == OPENED
