"""One connection of a server, bounded: the size and time of heads, connections in all and of one address.

uvicorn's protocol has none of these bounds: a head may be of any size and take any time. What is refused here never
reached the application.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, NamedTuple, cast

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

MAX_ADDRESS_BYTES: Final = 8_192
MAX_HEADER_BYTES: Final = 16_384
# How long a client may leave an answer unread.
UNREAD_SECONDS: Final = 60.0
# How long a refused client may go on sending before the connection is cut, so that it can read the refusal.
LINGER_SECONDS: Final = 2.0
# Connections beyond the limit that still get an answer; more of them are cut without one.
SPARE_CONNECTIONS: Final = 64

Header = tuple[bytes, bytes]


class ConnectionRefusal(NamedTuple):
    """The answer to a refused client: headers besides those of every answer, and the body."""

    headers: tuple[Header, ...] = ()
    body: bytes = b""


# Makes the refusal of a status: 400 no HTTP, 408 a head too late, 414 and 431 too long, 503 too many connections.
Refuse = Callable[[HTTPStatus], ConnectionRefusal]


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections a server has, in all and of one address (None: no bound of its own), and its patience.

    `arrival_seconds` is for a whole head, for the first byte on a new connection, and for the rest of a body that was
    answered before its end.
    """

    connections: int
    of_address: int | None = None
    arrival_seconds: float = 30.0


class HeadError(Exception):
    """The head of a request is refused."""


class JoiningTransport:
    """A transport that sends at once what is written in one turn of the loop: the head of an answer and its body.

    uvicorn writes them one after the other, each a call of the system and a packet of its own.
    """

    def __init__(self, inner: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """Return what else a transport has."""
        return getattr(self._inner, name)

    def write(self, data: bytes) -> None:
        """Send `data` in this turn of the loop."""
        self._held.append(data)
        if len(self._held) == 1:
            self._loop.call_soon(self._send)

    def write_eof(self) -> None:
        """Send what is held, and the end."""
        self._send()
        self._inner.write_eof()

    def close(self) -> None:
        """Send what is held, and close."""
        self._send()
        self._inner.close()

    def _send(self) -> None:
        held, self._held = self._held, []
        if held and not self._inner.is_closing():
            # Not by `writelines`, which pauses nobody in asyncio of Python 3.12.0 to 3.12.8 and 3.13.0 to 3.13.1
            # (CVE-2024-12254): an answer that is not read would fill the memory.
            self._inner.write(b"".join(held))


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over httptools with bounds; what `refuse` returns is the answer to a client that breaks one.

    `busy`: there was no place for this connection, and its request is refused.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        bounds: ConnectionLimits,
        refuse: Refuse,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds = bounds
        self._refusal_of = refuse
        self._refused = False
        self.busy = False
        self._in_head = False
        self._new_head = False
        self._head_bytes = 0
        self._header_bytes = 0
        self._why = HTTPStatus.BAD_REQUEST
        self._arrival: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Take a connection; beyond the limit its first request is refused, far beyond it is cut."""
        super().connection_made(cast("asyncio.Transport", JoiningTransport(transport, self.loop)))
        # Who was refused takes no place: clients that ask again at once would else keep each other out.
        inside = [one for one in self.connections if isinstance(one, BoundedProtocol) and not one.busy]
        most = self._bounds.of_address
        of_address = sum(one.address == self.address for one in inside)
        self.busy = len(inside) > self._bounds.connections or (most is not None and of_address > most)
        if self.busy and len(self.connections) - len(inside) >= SPARE_CONNECTIONS:
            transport.abort()
        else:
            self._watch_arrival()

    @property
    def address(self) -> str:
        """The address of the client; empty where it is not known."""
        return self.client[0] if self.client else ""

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
        self._new_head = False
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # No upgrade is offered: the request is answered as any other.
        except httptools.HttpParserError:
            self._refuse(self._why)
            return
        # The piece with which a head begins may hold other things, and is of a bounded size.
        if self._in_head and not self._new_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_ADDRESS_BYTES + MAX_HEADER_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._watch_arrival()

    def on_message_begin(self) -> None:
        """Begin a head."""
        self._in_head = self._new_head = True
        self._head_bytes = self._header_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the address."""
        super().on_url(url)
        if len(self.url) > MAX_ADDRESS_BYTES:
            self._give_up(HTTPStatus.REQUEST_URI_TOO_LONG)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > MAX_HEADER_BYTES:
            self._give_up(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, unless there are too many connections, or it is not said once whom the request is for."""
        self._in_head = False
        names: tuple[bytes, ...] = next(zip(*self.headers, strict=True), ())
        hosts = names.count(b"host")
        if hosts != 1 and (hosts or self.parser.get_http_version() == "1.1"):
            self._give_up(HTTPStatus.BAD_REQUEST)
        if self.busy:
            self._give_up(HTTPStatus.SERVICE_UNAVAILABLE)
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request; after the last one before what was refused, the connection ends."""
        last = not self.pipeline
        super().on_response_complete()
        if last and self._refused:
            self.transport.close()

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

    def _give_up(self, why: HTTPStatus) -> None:
        self._why = why
        raise HeadError

    def _watch_arrival(self) -> None:
        """While no request is being answered, what the client has begun to send must come in time."""
        waiting = self.cycle is None or self.cycle.response_complete
        if not waiting and self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        elif waiting and self._arrival is None:
            self._arrival = self.loop.call_later(self._bounds.arrival_seconds, self._came_too_late)

    def _came_too_late(self) -> None:
        if self._in_head and not self._refused:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus) -> None:
        """Answer and close; requests that came whole before are answered instead, and with them the connection ends."""
        self._refused = True
        refusal = self._refusal_of(status)
        running = self.cycle is not None and not self.cycle.response_complete
        if running and (self.cycle.response_started or not self.cycle.more_body):
            self.cycle.keep_alive = False
            return
        if self.pipeline:
            # Half a request waits behind one that is being answered.
            self.pipeline.popleft()
            return
        self.transport.write(_written(status, (*self.server_state.default_headers, *refusal.headers), refusal.body))
        if running:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _written(status: HTTPStatus, headers: tuple[Header, ...], body: bytes) -> bytes:
    own = ((b"content-length", b"%d" % len(body)), (b"connection", b"close"))
    lines = [f"HTTP/1.1 {status} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in (*headers, *own)]
    return b"\r\n".join([*lines, b"", body])
