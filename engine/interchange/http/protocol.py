"""The server's side of one HTTP connection, bounded: sizes and times of heads, connections, refusals in FHIR form.

uvicorn's protocol has none of these bounds: a head may be of any size and take any time. What is refused here never
reached the application.
"""

import asyncio
import http
from collections.abc import Callable
from typing import Any, Final

import httptools
from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from engine.fhir.schema import FhirVersion
from engine.interchange.exact import write_json
from engine.interchange.http.wire import SAFE
from engine.interchange.outcome import Category, outcome, refuse

MAX_ADDRESS_BYTES: Final = 8_192
MAX_HEADER_BYTES: Final = 16_384
# For a whole head, and for the rest of a body that was answered before its end.
ARRIVAL_SECONDS: Final = 30.0
# How long a client may leave an answer unread.
UNREAD_SECONDS: Final = 60.0
# How long a refused client may go on sending before the connection is cut, so that it can read the refusal.
LINGER_SECONDS: Final = 2.0
# Connections beyond the limit that are still told so; more of them are cut without a word.
SPARE_CONNECTIONS: Final = 64

TEXTS: Final = {
    Category.STRUCTURE: "The request is no HTTP/1.1 that can be read.",
    Category.SLOW_BODY: "The request did not come in time.",
    Category.LONG_ADDRESS: f"The address is longer than {MAX_ADDRESS_BYTES} bytes.",
    Category.LONG_HEADERS: f"The headers are longer than {MAX_HEADER_BYTES} bytes.",
    Category.BUSY: "The service has too many connections; try again soon.",
}


class HeadError(Exception):
    """The head of a request is refused."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol over httptools with bounds; `refused` is told the category of every refusal."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        max_connections: int,
        refused: Callable[[Category], None],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._max_connections = max_connections
        self._tell_refused = refused
        self._refused = False
        self._busy = False
        self._in_head = False
        self._new_head = False
        self._head_bytes = 0
        self._header_bytes = 0
        self._why = Category.STRUCTURE
        self._arrival: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection; beyond the limit its first request is refused, far beyond it is cut."""
        super().connection_made(transport)
        over = len(self.connections) - self._max_connections
        self._busy = over > 0
        if over > SPARE_CONNECTIONS:
            transport.abort()
        else:
            self._watch_arrival()

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
                self._refuse(Category.LONG_HEADERS)
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
            self._give_up(Category.LONG_ADDRESS)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > MAX_HEADER_BYTES:
            self._give_up(Category.LONG_HEADERS)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to answer, unless there are too many connections."""
        self._in_head = False
        if self._busy:
            self._give_up(Category.BUSY)
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

    def _give_up(self, why: Category) -> None:
        self._why = why
        raise HeadError

    def _watch_arrival(self) -> None:
        """While no request is being answered, what the client has begun to send must come in time."""
        waiting = self.cycle is None or self.cycle.response_complete
        if not waiting and self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        elif waiting and self._arrival is None:
            self._arrival = self.loop.call_later(ARRIVAL_SECONDS, self._came_too_late)

    def _came_too_late(self) -> None:
        if self._in_head and not self._refused:
            self._refuse(Category.SLOW_BODY)
        else:
            self.transport.close()

    def _refuse(self, category: Category) -> None:
        """Answer in FHIR's form and close; a request that came whole before is answered instead, and then it ends."""
        self._refused = True
        self._tell_refused(category)
        running = self.cycle is not None and not self.cycle.response_complete
        if running and (self.cycle.response_started or not self.cycle.more_body):
            self.cycle.keep_alive = False
            self.pipeline.clear()
            return
        self.transport.write(_refusal(category, self.server_state.default_headers))
        if running:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.close)


def _refusal(category: Category, headers: list[tuple[bytes, bytes]]) -> bytes:
    text = TEXTS.get(category, TEXTS[Category.STRUCTURE])
    body = write_json(outcome(refuse(category, text, location="http.head"), FhirVersion.R4, ""))
    own = (
        (b"content-type", b"application/fhir+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        *((b"retry-after", b"1"),) * (category is Category.BUSY),
    )
    lines = [f"HTTP/1.1 {category.status} {http.HTTPStatus(category.status).phrase}".encode()]
    lines += [name + b": " + value for name, value in (*headers, *SAFE, *own)]
    return b"\r\n".join([*lines, b"", body])
