"""The HTTP client: a request in, a bounded answer out, foreign errors turned into ours; and quoting of a query.

httpx reads the URL; transport.py carries the request. At 16 requests in flight one PUT costs 1,770 us of CPU with
httpx's own pool, 270 us with httpx over aiohttp, 170 us with an `httpx.Request` over an aiohttp session, and 65 us with
one over httptools (tests/benchmarks/bench_deliver.py); the head of a request is written here, which saves 15 us of
these. Nothing is followed or resent here, nothing but a proxy that the settings ask for is taken from the environment,
and TLS is always verified.
"""

import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httptools
import httpx
import orjson

from engine import fault
from engine.deliver.verdict import Failure
from engine.deliver.wire.failure import error_of
from engine.deliver.wire.proxy import (
    NOT_KNOWN,
    ProxyAuthenticationError,
    ProxyFailedError,
    ProxyForbidsError,
    ProxyRoute,
    ProxySecretError,
    ProxyUnreachableError,
)
from engine.deliver.wire.transport import (
    AnswerTooLargeError,
    CertificateRefusedError,
    ConnectionLostError,
    NotConnectedError,
    Transport,
    TransportAddress,
)
from engine.errors import DeliveryError, DestinationError, StartError
from engine.http.tls import ClientTls, KeyPair, client_context

_ESCAPED: Final = str.maketrans({"\\": "\\\\", "|": "\\|", ",": "\\,", "$": "\\$"})


def escaped(text: str) -> str:
    """Return a value with the characters escaped that mean something in a search (FHIR search, 3.1.1.4)."""
    return text.translate(_ESCAPED)


def parameters(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a search's parameters as they stand in a URL or in If-None-Exist, in ASCII."""
    return "&".join(f"{quote(name, safe='')}={quote(escaped(value), safe='')}" for name, value in pairs)


MAX_ANSWER_BYTES: Final = 10 * 1024 * 1024
CONNECT_SECONDS: Final = 10.0
# What is kept of addresses: half a MiB at most, as only the last few are asked for again.
ADDRESSES: Final = 1024
_LINE_BREAK: Final = re.compile(r"[\r\n\0]")
# A path and a query that httpx leaves as they are, so that reading the server's own address once does for all of them.
_PLAIN: Final = re.compile(r"(?:/[A-Za-z0-9_$~-][A-Za-z0-9_.$~-]*)+(?:\?(?:[A-Za-z0-9_.~=&-]|%[0-9A-F]{2})*)?")
# What is sent with a length even where it has no body (RFC 9110, section 8.6).
_WITH_LENGTH: Final = frozenset({"POST", "PUT", "PATCH"})

_UNREAD: Final = object()

Contexts = Callable[[], ssl.SSLContext]
Table = tuple[tuple[type[BaseException], Failure, str], ...]

# What a foreign error means for a write, first match wins: while connecting nothing was sent, afterwards who knows.
CONNECTING: Final[Table] = (
    (ProxyUnreachableError, Failure.TRANSIENT, "proxy-unreachable"),
    (ProxyAuthenticationError, Failure.DESTINATION, "proxy-authentication"),
    (ProxyForbidsError, Failure.DESTINATION, "proxy-forbids"),
    (ProxyFailedError, Failure.TRANSIENT, "proxy-failed"),
    (ProxySecretError, Failure.DESTINATION, "secret-unreadable"),
    (CertificateRefusedError, Failure.DESTINATION, "client-certificate-refused"),
    (ssl.SSLCertVerificationError, Failure.DESTINATION, "tls-certificate"),
    (ssl.SSLError, Failure.DESTINATION, "tls"),
    (socket.gaierror, Failure.TRANSIENT, "name-not-resolved"),
    (TimeoutError, Failure.TRANSIENT, "connect-timeout"),
    (ConnectionRefusedError, Failure.TRANSIENT, "connection-refused"),
    (OSError, Failure.TRANSIENT, "not-connected"),
    (ValueError, Failure.DESTINATION, "bad-url"),
)
SENT: Final[Table] = (
    (CertificateRefusedError, Failure.DESTINATION, "client-certificate-refused"),
    (TimeoutError, Failure.AMBIGUOUS, "timeout"),
    (ConnectionLostError, Failure.AMBIGUOUS, "connection-lost"),
    (AnswerTooLargeError, Failure.AMBIGUOUS, "answer-too-large"),
    (httptools.HttpParserError, Failure.AMBIGUOUS, "answer-unreadable"),
    (httptools.HttpParserUpgrade, Failure.AMBIGUOUS, "answer-unreadable"),
    (OSError, Failure.AMBIGUOUS, "connection-lost"),
    (httpx.InvalidURL, Failure.PERMANENT, "bad-url"),
    (ValueError, Failure.PERMANENT, "bad-request"),
)
FOREIGN: Final[tuple[type[BaseException], ...]] = (NotConnectedError, *(kind for kind, _, _ in SENT))


class ServerResponse:
    """What a server said; header names are lower case. Its JSON is parsed when it is asked for."""

    __slots__ = ("_json", "body", "headers", "milliseconds", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes, json: Any, milliseconds: float) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.milliseconds = milliseconds
        self._json = json

    @property
    def json(self) -> Any:
        """The body as JSON, None where it is none."""
        if self._json is _UNREAD:
            self._json = _json(self.body)
        return self._json

    def read_by(self, read: Callable[[bytes], Any]) -> None:
        """Let the body be read in another way than by parsing it, if that gives anything."""
        if self._json is _UNREAD and (found := read(self.body)) is not None:
            self._json = found


class FhirClient:
    """One server's connections; `request_seconds` bounds a request from its start to the last byte of the answer.

    `journaled` says that its writes are journaled, so that the fault points F12 to F14 are theirs. `lost` is as of
    `Transport`. `tls` gives the context of a new connection, in the place of one that trusts `ca_file`.
    """

    def __init__(
        self,
        *,
        request_seconds: float,
        ca_file: str | None = None,
        tls: Contexts | None = None,
        proxy: ProxyRoute | None = None,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        journaled: bool = True,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._seconds = request_seconds
        self._journaled = journaled
        self._proxy = proxy
        self._transport = Transport(
            tls or contexts(ca_file),
            proxy=proxy,
            connect_seconds=min(CONNECT_SECONDS, request_seconds / 2),
            max_answer_bytes=max_answer_bytes,
            lost=lost,
        )

    async def send(self, method: str, url: str, headers: list[tuple[str, str]], body: bytes = b"") -> ServerResponse:
        """Send one request and return the answer, whatever its status.

        Raises DeliveryError of the class that the failure has for a write; a redirect is an answer like any other.
        """
        begun = time.perf_counter()
        struck = self._journaled and method != "GET" and fault.armed()
        try:
            target = _target(url)
            by_proxy = None if self._proxy is None else self._absolute(self._proxy, target)
            if by_proxy is not None:
                target, headers = by_proxy[0], [*headers, *by_proxy[1]]
            content = _written(method, target, headers, body)
            if struck:
                fault.point("F12")
            status, names, answer = await self._transport.exchange(
                target.address, content, self._seconds, _strike if struck else None
            )
            if by_proxy is not None and status == NOT_KNOWN:
                raise NotConnectedError from ProxyAuthenticationError()
        except FOREIGN as error:
            raise foreign(error) from error
        return ServerResponse(status, names, answer, _UNREAD, (time.perf_counter() - begun) * 1000)

    async def close(self) -> None:
        """Close the connections; requests under way fail."""
        await self._transport.close()

    def _absolute(self, proxy: ProxyRoute, target: "_Target") -> "tuple[_Target, list[tuple[str, str]]] | None":
        """Return a target in absolute form (RFC 9112, 3.2.2) and what the proxy asks for; None where none reads it."""
        host, port, tls = target.address
        hop = None if tls else proxy.hop(host, port, tls=False)
        if hop is None:
            return None
        try:
            authorization = hop.authorization()
        except ProxySecretError as error:
            raise NotConnectedError from error
        named = [("Proxy-Authorization", authorization)] if authorization else []
        return target._replace(path=f"http://{target.host}{target.path}"), named


def foreign(error: BaseException) -> DeliveryError:
    """Return our error for one of httpx, httptools or the system; its class is that of a write that failed so."""
    table, seen = (CONNECTING, error.__cause__) if isinstance(error, NotConnectedError) else (SENT, error)
    for kind, failure, reason in table:
        if isinstance(seen, kind):
            return error_of(failure, reason, 0, (reason,))
    return DestinationError("unknown-failure", codes=("unknown-failure",))


def _strike(place: str) -> None:
    fault.point("F13" if place == "sent" else "F14")


def contexts(
    ca_file: str | None, certificate: KeyPair | None = None, observe: Callable[[str], None] = lambda _kind: None
) -> Contexts:
    """Return what gives the context of a new connection; StartError names a file that cannot be used.

    `certificate`: the engine's own, read again once its files have changed, of which `observe` hears.
    """
    context = _public() if ca_file is None else _verified(ca_file)
    return (lambda: context) if certificate is None else ClientTls(certificate, ca_file, observe).context


def _verified(ca_file: str) -> ssl.SSLContext:
    try:
        return client_context(ca_file)
    except ssl.SSLError as error:
        raise StartError(f"{ca_file} holds no certificates that can be used; give a PEM file") from error
    except OSError as error:
        raise StartError(f"{ca_file} cannot be read ({error.strerror}); mend ca_file") from error


@cache
def _public() -> ssl.SSLContext:
    """Return what the system trusts, read once: it takes 25 ms, and each destination has two clients."""
    return client_context()


class _Target(NamedTuple):
    """Where a URL leads, and what a request to it begins with."""

    address: TransportAddress
    path: str
    host: str


@lru_cache(maxsize=ADDRESSES)
def _target(url: str) -> _Target:
    """Return where a URL leads; for httpx to parse each would cost as much as sending it."""
    at = url.find("/", len("https://"))
    if at > 0 and _PLAIN.fullmatch(url, at):
        return _parsed(url[:at])._replace(path=url[at:])
    return _parsed(url)


@lru_cache(maxsize=64)
def _parsed(url: str) -> _Target:
    """Return where a URL leads, as httpx reads it."""
    parsed = httpx.URL(url)
    tls = parsed.scheme == "https"
    address = TransportAddress(parsed.host, parsed.port or (443 if tls else 80), tls)
    return _Target(address, parsed.raw_path.decode("ascii"), parsed.netloc.decode("ascii"))


def _written(method: str, target: _Target, headers: list[tuple[str, str]], body: bytes) -> bytes:
    """Return a request as bytes; ValueError for a header that would break its line, or is not of ASCII."""
    lines = [f"{method} {target.path} HTTP/1.1", f"Host: {target.host}"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body or method in _WITH_LENGTH:
        lines.append(f"Content-Length: {len(body)}")
    if _LINE_BREAK.search(" ".join(lines)):
        raise ValueError("a line break in a header")
    lines += ("", "")
    return "\r\n".join(lines).encode("ascii") + body


def _json(content: bytes) -> Any:
    try:
        return orjson.loads(content) if content else None
    except orjson.JSONDecodeError:
        return None
