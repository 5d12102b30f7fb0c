"""The HTTP client: `httpx.Request` in, a bounded answer out, foreign errors turned into ours at this one seam.

httpx describes the request; an aiohttp session carries it. At 16 requests in flight httpx's own pool costs 1,470 us
of CPU a request, httpx over a foreign transport 270 us, and this 130 us (tests/benchmarks/bench_deliver.py). Nothing
is followed, resent or taken from the environment here, and TLS is always verified.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import aiohttp
import httpx
import orjson
from yarl import URL

from engine import fault
from engine.deliver.failure import error_of
from engine.deliver.verdict import Failure
from engine.errors import DeliveryError, DestinationError, StartError

MAX_ANSWER_BYTES: Final = 10 * 1024 * 1024
CONNECT_SECONDS: Final = 10.0
FAULT_SETTLE_SECONDS: Final = 0.05
ADDRESSES: Final = 16_384

# Foreign errors and what they mean for a write, first match wins: what fails before anything was sent is transient.
FOREIGN: Final[tuple[tuple[type[BaseException], Failure, str], ...]] = (
    (aiohttp.ClientConnectorCertificateError, Failure.DESTINATION, "tls-certificate"),
    (aiohttp.ClientSSLError, Failure.DESTINATION, "tls"),
    (aiohttp.ServerFingerprintMismatch, Failure.DESTINATION, "tls-certificate"),
    (ssl.SSLCertVerificationError, Failure.DESTINATION, "tls-certificate"),
    (aiohttp.ClientConnectorDNSError, Failure.TRANSIENT, "name-not-resolved"),
    (aiohttp.ClientConnectorError, Failure.TRANSIENT, "not-connected"),
    (aiohttp.ConnectionTimeoutError, Failure.TRANSIENT, "connect-timeout"),
    (aiohttp.NonHttpUrlClientError, Failure.DESTINATION, "bad-url"),
    (aiohttp.InvalidURL, Failure.DESTINATION, "bad-url"),
    (aiohttp.ServerDisconnectedError, Failure.AMBIGUOUS, "connection-lost"),
    (TimeoutError, Failure.AMBIGUOUS, "timeout"),
    (aiohttp.ClientPayloadError, Failure.AMBIGUOUS, "answer-broken"),
    (aiohttp.ClientResponseError, Failure.AMBIGUOUS, "answer-unreadable"),
    (aiohttp.ClientError, Failure.AMBIGUOUS, "connection-lost"),
    (OSError, Failure.AMBIGUOUS, "connection-lost"),
    (httpx.InvalidURL, Failure.PERMANENT, "bad-url"),
    (UnicodeError, Failure.PERMANENT, "bad-request"),
    (ValueError, Failure.PERMANENT, "bad-request"),
)


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """What a server said: `json` is None where the body is none; `headers` do not mind letter case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    json: Any
    milliseconds: float


class _Lost(Exception):  # noqa: N818 (it wraps the error that counts)
    """Carries a lost connection past aiohttp, which would otherwise send a PUT a second time by itself."""

    def __init__(self, error: aiohttp.ClientError) -> None:
        super().__init__()
        self.error = error


class _Struck(aiohttp.ClientResponse):
    """An answer to a write, with the fault points around its arrival."""

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        if not fault.armed() or self.method == "GET":
            return await super().start(connection)
        await asyncio.sleep(FAULT_SETTLE_SECONDS)
        fault.point("F13")
        answer = await super().start(connection)
        fault.point("F14")
        return answer


class Client:
    """One server's connections; `request_seconds` bounds a request from its start to the last byte of the answer.

    `journaled` says that its writes are journaled, so that the fault points F12 to F14 are theirs.
    """

    def __init__(
        self,
        *,
        request_seconds: float,
        ca_file: str | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        journaled: bool = True,
    ) -> None:
        self._seconds = request_seconds
        self._most = max_answer_bytes
        self._tls = _verified(ca_file)
        self._journaled = journaled
        self._session: aiohttp.ClientSession | None = None

    async def send(self, method: str, url: str, headers: list[tuple[str, str]], body: bytes = b"") -> Answer:
        """Send one request and return the answer, whatever its status.

        Raises DeliveryError of the class that the failure has for a write; a redirect is an answer like any other.
        """
        begun = time.perf_counter()
        try:
            address, target = _addresses(url)
            request = httpx.Request(method, address, headers=headers, content=body)
            if self._journaled and method != "GET":
                fault.point("F12")
            async with asyncio.timeout(self._seconds):
                status, names, content = await self._exchange(request, target, body)
        except _Lost as lost:
            raise foreign(lost.error) from lost.error
        except (aiohttp.ClientError, httpx.InvalidURL, OSError, ValueError) as error:
            raise foreign(error) from error
        return Answer(status, names, content, _json(content), (time.perf_counter() - begun) * 1000)

    async def close(self) -> None:
        """Close the connections; requests under way fail."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _exchange(self, request: httpx.Request, target: URL, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        session = self._session or self._open()
        async with session.request(
            request.method,
            target,
            headers=[(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers.raw],
            data=body or None,
            allow_redirects=False,
        ) as answer:
            return answer.status, answer.headers, await self._bounded(answer)

    async def _bounded(self, answer: aiohttp.ClientResponse) -> bytes:
        length = answer.content_length
        if length is not None and length > self._most:
            raise error_of(Failure.AMBIGUOUS, "answer-too-large", answer.status, ("answer-too-large",))
        if length is not None and "Content-Encoding" not in answer.headers:
            return await answer.read()
        parts, size = [], 0
        async for part in answer.content.iter_any():
            size += len(part)
            if size > self._most:
                raise error_of(Failure.AMBIGUOUS, "answer-too-large", answer.status, ("answer-too-large",))
            parts.append(part)
        return b"".join(parts)

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(CONNECT_SECONDS, self._seconds)),
            trust_env=False,
            middlewares=(_send_once,),
            response_class=_Struck if self._journaled else aiohttp.ClientResponse,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )
        return self._session


def foreign(error: BaseException) -> DeliveryError:
    """Return our error for one of aiohttp, httpx or the system; its class is that of a write that failed so."""
    if isinstance(error, DeliveryError):
        return error
    for kind, failure, reason in FOREIGN:
        if isinstance(error, kind):
            return error_of(failure, reason, 0, (reason,))
    return DestinationError("unknown-failure", codes=("unknown-failure",))


async def _send_once(
    request: aiohttp.ClientRequest, handler: Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]
) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Lost(error) from error


def _verified(ca_file: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"{ca_file} holds no certificates that can be used; give a PEM file") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@lru_cache(maxsize=ADDRESSES)
def _addresses(url: str) -> tuple[httpx.URL, URL]:
    """Return a URL as httpx and as aiohttp have it; parsing it anew would cost a third of a request."""
    address = httpx.URL(url)
    return address, URL(str(address), encoded=True)


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError:
        return None
