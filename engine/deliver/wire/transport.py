"""Connections to one server: a request's bytes go out, an answer comes back whole and bounded.

llhttp (through httptools) parses; asyncio carries. A connection has one request under way, is kept while both sides
keep it, and nothing is ever sent a second time here.
"""

import asyncio
import ssl
import time
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import httptools

from engine.deliver.wire.proxy import ProxyError, ProxyFailedError, ProxyHop, ProxyRoute, ProxyUnreachableError, reach

IDLE_SECONDS: Final = 15.0
MOST_IDLE: Final = 64
MAX_HEADER_BYTES: Final = 65_536
SETTLE_SECONDS: Final = 0.05
# A server that ends a connection which was idle for longer has no need of it; else it may have ended itself.
RECENT_SECONDS: Final = 1.0
_ANY_ZIP: Final = 47

Headers = dict[str, str]
Place = Callable[[str], None]


class TransportAddress(NamedTuple):
    """Where a server listens."""

    host: str
    port: int
    tls: bool


class AnswerTooLargeError(Exception):
    """The answer is larger than allowed."""


class ConnectionLostError(Exception):
    """The connection ended before the answer was whole."""


class NotConnectedError(Exception):
    """No connection could be made; nothing was sent."""


class CertificateRefusedError(Exception):
    """The server ended the handshake for want of a client certificate that it takes; it has read no request."""


# Alerts by which a server refuses a client's certificate, or the want of one (RFC 8446, 6.2), as OpenSSL names them.
_CERTIFICATE_ALERTS: Final = (
    "ALERT_BAD_CERTIFICATE",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_CERTIFICATE_REVOKED",
    "ALERT_CERTIFICATE_EXPIRED",
    "ALERT_CERTIFICATE_UNKNOWN",
    "ALERT_UNKNOWN_CA",
    "ALERT_ACCESS_DENIED",
    "ALERT_CERTIFICATE_REQUIRED",
)


class Transport:
    """The connections to one server, made when needed and kept for the next request.

    `place` is called with `sent` when the request has left and with `headers` when the answer's headers have come.
    `lost` is called when the server ends a connection that it answered on a moment ago. `tls` gives the context of a
    new connection, `proxy` the way to a server.
    """

    def __init__(
        self,
        tls: Callable[[], ssl.SSLContext],
        *,
        connect_seconds: float,
        max_answer_bytes: int,
        lost: Callable[[], None],
        proxy: ProxyRoute | None = None,
    ) -> None:
        self._tls = tls
        self._proxy = proxy
        self._lost = lost
        self._connect_seconds = connect_seconds
        self._most = max_answer_bytes
        self._idle: deque[_Connection] = deque()
        self._busy: set[_Connection] = set()

    async def exchange(
        self, address: TransportAddress, content: bytes, seconds: float, place: Place | None = None
    ) -> tuple[int, Headers, bytes]:
        """Send a request and return status, headers (names in lower case) and decoded body.

        Raises NotConnectedError before anything was sent (its cause says why), afterwards TimeoutError past `seconds`,
        ConnectionLostError, AnswerTooLargeError or an error of httptools.
        """
        connection = self._kept(address) or await self._connect(address)
        self._busy.add(connection)
        # A timer of its own: asyncio.timeout costs more than the exchange's own code.
        deadline = asyncio.get_running_loop().call_later(seconds, connection.expire)
        try:
            status, headers, body = await connection.exchange(content, place)
        except BaseException:
            connection.abort()
            raise
        finally:
            deadline.cancel()
            self._busy.discard(connection)
        self._keep(connection)
        return status, headers, _decoded(body, headers.get("content-encoding", ""), self._most)

    async def close(self) -> None:
        """Close every connection; requests under way fail."""
        for connection in (*self._idle, *self._busy):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)

    def _kept(self, address: TransportAddress) -> "_Connection | None":
        limit = time.monotonic() - IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.since > limit and connection.address == address:
                return connection
            connection.close()
        return None

    def _keep(self, connection: "_Connection") -> None:
        if not connection.usable or len(self._idle) >= MOST_IDLE:
            connection.close()
            return
        connection.since = time.monotonic()
        self._idle.append(connection)

    async def _connect(self, address: TransportAddress) -> "_Connection":
        try:
            tls = self._tls() if address.tls else None
            if self._proxy is not None:
                return await self._connect_by(self._proxy, address, tls)
            async with asyncio.timeout(self._connect_seconds):
                return await self._open(address, address.host, address.port, tls)
        except (OSError, ssl.SSLError, ValueError, ProxyError) as error:
            if isinstance(error, ssl.SSLError) and refuses_certificate(error):
                raise NotConnectedError from CertificateRefusedError()
            raise NotConnectedError from error

    async def _open(self, address: TransportAddress, host: str, port: int, tls: ssl.SSLContext | None) -> "_Connection":
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(address, self._most, self._lost), host, port, ssl=tls
        )
        return connection

    async def _connect_by(
        self, proxy: ProxyRoute, address: TransportAddress, tls: ssl.SSLContext | None
    ) -> "_Connection":
        """Connect by the proxy that leads to a server, if one does; ProxyError where it opens no way."""
        hop = proxy.hop(address.host, address.port, tls=address.tls)
        deadline = asyncio.get_running_loop().time() + self._connect_seconds
        if hop is not None and tls is not None:
            return await self._tunnelled(hop, address, tls, deadline)
        if hop is None:
            async with asyncio.timeout_at(deadline):
                return await self._open(address, address.host, address.port, tls)
        async with _before(deadline, ProxyUnreachableError):
            return await self._open(address, hop.address.host, hop.address.port, None)

    async def _tunnelled(
        self, hop: ProxyHop, address: TransportAddress, tls: ssl.SSLContext, deadline: float
    ) -> "_Connection":
        """Open a tunnel, and begin TLS with the server at its end."""
        authorization = hop.authorization()
        async with _before(deadline, ProxyUnreachableError):
            tunnel = await reach(hop)
        try:
            async with _before(deadline, ProxyFailedError):
                way = await tunnel.open(address.host, address.port, authorization)
            async with asyncio.timeout_at(deadline):
                return await self._secured(way, address, tls)
        except BaseException:
            tunnel.abort()
            raise

    async def _secured(self, way: asyncio.Transport, address: TransportAddress, tls: ssl.SSLContext) -> "_Connection":
        """Begin TLS with the server at the end of a tunnel."""
        connection = _Connection(address, self._most, self._lost)
        inner = await asyncio.get_running_loop().start_tls(way, connection, tls, server_hostname=address.host)
        if inner is None:
            raise ConnectionResetError
        connection.connection_made(inner)
        return connection


@asynccontextmanager
async def _before(deadline: float, failure: type[ProxyError]) -> AsyncIterator[None]:
    """Bound what is done at a proxy; what fails there is a failure of that kind."""
    try:
        async with asyncio.timeout_at(deadline):
            yield
    except OSError as error:
        raise failure from error


def refuses_certificate(error: BaseException | None) -> bool:
    """Say whether an error is a server's alert about the client's certificate."""
    reason = str(getattr(error, "reason", "") or "")
    return reason.endswith(_CERTIFICATE_ALERTS)


class _Connection(asyncio.Protocol):
    """One connection; httptools calls `on_...` as it parses."""

    def __init__(self, address: TransportAddress, max_answer_bytes: int, lost: Callable[[], None]) -> None:
        self.address = address
        self.since = 0.0
        self._lost = lost
        self.usable = True
        self._most = max_answer_bytes
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[tuple[int, Headers, bytes]] | None = None

    async def exchange(self, content: bytes, place: Place | None) -> tuple[int, Headers, bytes]:
        if self._transport is None or not self.usable:
            raise ConnectionLostError
        self._waiting = asyncio.get_running_loop().create_future()
        self._place = place
        self._taken = 0
        self.on_message_begin()
        self._transport.write(content)
        if place is not None:
            await asyncio.sleep(SETTLE_SECONDS)
            place("sent")
        return await self._waiting

    def expire(self) -> None:
        self._fail(TimeoutError())

    def abort(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self.abort()
            return
        self._taken += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(error.__context__ if isinstance(error.__context__, AnswerTooLargeError) else error)
            self.abort()
        else:
            # A header that does not end is not handed over.
            if self._in_head and self._taken > MAX_HEADER_BYTES:
                self._fail(AnswerTooLargeError())
                self.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        kept, self.usable = self.usable, False
        if self._waiting is None or self._waiting.done():
            if kept and self.since > time.monotonic() - RECENT_SECONDS:
                self._lost()
            return
        if exc is None and self._until_eof:
            self.on_message_complete()
        elif exc is not None and not self.since and not self._taken and refuses_certificate(exc):
            # TLS 1.3 tells a client after its own end of the handshake: before any answer, nobody read the request.
            self._fail(CertificateRefusedError())
        else:
            self._fail(ConnectionLostError())

    def on_message_begin(self) -> None:
        self._headers: Headers = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._in_head = True
        self._until_eof = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # Not what was received so far: a piece of the body may have come with the head.
        self._head_size += len(name) + len(value)
        if self._head_size > MAX_HEADER_BYTES:
            raise AnswerTooLargeError
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        named = self._headers
        if int(named.get("content-length", "0") or 0) > self._most:
            raise AnswerTooLargeError
        self._until_eof = "content-length" not in named and "transfer-encoding" not in named
        if self._place is not None:
            self._place("headers")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > self._most:
            raise AnswerTooLargeError
        self._parts.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200 or self._waiting is None or self._waiting.done():
            return
        self.usable = self.usable and not self._until_eof and self._parser.should_keep_alive()
        self._waiting.set_result((status, self._headers, b"".join(self._parts)))

    def _fail(self, error: BaseException) -> None:
        self.usable = False
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)


def _decoded(body: bytes, encoding: str, most: int) -> bytes:
    """Undo a compression that was not asked for, within the bound."""
    if encoding.strip().lower() in {"", "identity"} or not body:
        return body
    unzip = zlib.decompressobj(_ANY_ZIP)
    try:
        plain = unzip.decompress(body, most + 1)
    except zlib.error as error:
        raise ConnectionLostError from error
    if len(plain) > most or unzip.unconsumed_tail:
        raise AnswerTooLargeError
    return plain
