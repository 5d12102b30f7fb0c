"""The server's side of one connection, bounded: sizes and times of heads, connections in all and per address.

uvicorn's protocol has none of these bounds. What is refused here never reached the application.
"""

import asyncio
from typing import Any, Final

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from engine.ops.web.headers import secured

MOST_HEAD_BYTES: Final = 16_384
MOST_CONNECTIONS: Final = 400
MOST_PER_ADDRESS: Final = 100
# For a whole head, and for the first byte on a new connection.
HEAD_SECONDS: Final = 15.0
# How long a client may leave an answer unread.
UNREAD_SECONDS: Final = 60.0
# How long a refused client may go on sending, so that it can read the refusal.
LINGER_SECONDS: Final = 1.0
REASONS: Final = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class HeadError(Exception):
    """The head of a request is refused."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over httptools with bounds."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._refused = self._in_head = self._fresh = False
        self._head_bytes = 0
        self._arrival: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many in all or of this address."""
        super().connection_made(transport)
        address = _address_of(self)
        of_address = sum(_address_of(one) == address for one in self.connections)
        if len(self.connections) > MOST_CONNECTIONS or of_address > MOST_PER_ADDRESS:
            self._refuse(503)
        else:
            self._arrival = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for timer in (self._arrival, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; what it cannot read, and heads that are too large, are refused."""
        if self._refused:
            return
        self._unset_keepalive_if_required()
        self._fresh = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # No upgrade is offered: the request is answered as any other.
        except httptools.HttpParserError:
            self._refuse(431 if self._head_bytes > MOST_HEAD_BYTES else 400)
            return
        if self._in_head and not self._fresh:
            self._count(len(data))
            if self._head_bytes > 2 * MOST_HEAD_BYTES:
                self._refuse(431)

    def on_message_begin(self) -> None:
        """Begin a head, which must come whole in time."""
        self._in_head = self._fresh = True
        self._head_bytes = 0
        if self._arrival is None:
            self._arrival = self.loop.call_later(HEAD_SECONDS, self._too_late)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        self._take(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._take(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._in_head = False
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        super().on_headers_complete()

    def pause_writing(self) -> None:
        """Cut the connection if the client goes on leaving its answer unread."""
        super().pause_writing()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def _count(self, size: int) -> None:
        self._head_bytes += size

    def _take(self, size: int) -> None:
        self._count(size)
        if self._head_bytes > MOST_HEAD_BYTES:
            raise HeadError

    def _too_late(self) -> None:
        if self._in_head and not self._refused:
            self._refuse(408)
        else:
            self.transport.close()

    def _refuse(self, status: int) -> None:
        """Answer and close; a request that is being answered gets its answer first, and then it ends."""
        self._refused = True
        running = self.cycle is not None and not self.cycle.response_complete
        if running:
            self.cycle.keep_alive = False
            self.pipeline.clear()
            if self.cycle.response_started or not self.cycle.more_body:
                return
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write(_refusal(status, tls=self.scheme == "https"))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _address_of(connection: object) -> str:
    client = getattr(connection, "client", None)
    return str(client[0]) if client else ""


def _refusal(status: int, *, tls: bool) -> bytes:
    headers = secured([(b"content-length", b"0"), (b"connection", b"close")], tls=tls)
    lines = [b"HTTP/1.1 %d %s" % (status, REASONS[status]), *(b"%s: %s" % header for header in headers)]
    return b"\r\n".join([*lines, b"", b""])
