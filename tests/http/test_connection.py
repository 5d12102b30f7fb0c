"""Connections and heads within their bounds, over real sockets."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, MutableMapping
from http import HTTPStatus
from typing import Any

import pytest

from engine.http import connection
from engine.http.binding import bind
from engine.http.connection import MAX_ADDRESS_BYTES, MAX_HEADER_BYTES, ConnectionLimits, ConnectionRefusal
from engine.http.server import http_server

Message = MutableMapping[str, Any]
GET = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"
WIDE = ConnectionLimits(100)


class Hall:
    """A server whose application says the path of each request, and the connections of a test to it.

    `/gate` is answered once the gate is open; that of `/long` is too long to go unread, and `cut` is set
    once it ended.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.cut = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def __call__(self, scope: Message, receive: Any, send: Any) -> None:
        """Answer one request without reading its body."""
        self.asked.set()
        path = scope["path"].encode()
        if path == b"/long":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(32):
                await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
            self.cut.set()
            return
        if path == b"/gate":
            await self.gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(path))]})
        await send({"type": "http.response.body", "body": path})

    async def dial(self, sent: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection and send something."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        writer.write(sent)
        return reader, writer

    async def heard(self, sent: bytes) -> bytes:
        """Return all that is said to somebody who sends something, until the other side ends."""
        reader, writer = await self.dial(sent)
        said = await reader.read()
        writer.close()
        return said

    async def hang_up(self) -> None:
        """Close the connections."""
        for writer in self.writers:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for writer in self.writers), return_exceptions=True)


@contextlib.asynccontextmanager
async def serving(bounds: ConnectionLimits = WIDE) -> AsyncIterator[Hall]:
    """Serve a hall within bounds, for a test of 20 seconds; a refusal tells its status in a header and in its body."""

    def refuse(status: HTTPStatus) -> ConnectionRefusal:
        return ConnectionRefusal(((b"x-why", status.name.encode()),), status.name.encode())

    listening = bind("127.0.0.1", 0, backlog=16)
    hall = Hall(listening.getsockname()[1])
    server = http_server(hall, bounds, refuse, context=None, keep_alive_seconds=60, grace_seconds=1)
    task = asyncio.create_task(server.serve([listening]))
    try:
        async with asyncio.timeout(20):
            yield hall
    finally:
        hall.gate.set()
        await hall.hang_up()
        server.should_exit = True
        await task


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(b"MSH|^~\\&|no HTTP\r\n\r\n", HTTPStatus.BAD_REQUEST, id="no HTTP"),
        pytest.param(GET % (b"a" * MAX_ADDRESS_BYTES), HTTPStatus.REQUEST_URI_TOO_LONG, id="address"),
        pytest.param(
            GET[:-2] % b"" + b"x: " + b"a" * MAX_HEADER_BYTES + b"\r\n\r\n",
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            id="headers",
        ),
        pytest.param(
            GET[:-2] % b"" + b"x: " + b"a" * 1_000_000, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, id="endless"
        ),
        pytest.param(b"GET /a HTTP/1.1\r\n\r\n", HTTPStatus.BAD_REQUEST, id="no Host"),
        pytest.param(b"GET /a HTTP/1.1\r\nx-host: x\r\n\r\n", HTTPStatus.BAD_REQUEST, id="no Host, but another"),
        pytest.param(b"GET /a HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", HTTPStatus.BAD_REQUEST, id="two Hosts"),
        pytest.param(b"GET /a HTTP/1.0\r\nhost: x\r\nHOST: y\r\n\r\n", HTTPStatus.BAD_REQUEST, id="two in HTTP/1.0"),
        pytest.param(b"POST /a HTTP/1.1\r\ncontent-length: 1\r\n\r\nx", HTTPStatus.BAD_REQUEST, id="no Host, a body"),
    ],
)
async def test_a_head_that_is_refused(sent: bytes, status: HTTPStatus) -> None:
    """The refusal says its status, what the server has to say to it, and that the connection ends."""
    async with serving() as hall:
        head, _, body = (await hall.heard(sent)).partition(b"\r\n\r\n")
        assert head.startswith(f"HTTP/1.1 {status} {status.phrase}\r\n".encode())
        assert {b"connection: close", b"x-why: " + body, b"content-length: %d" % len(body)} <= set(head.split(b"\r\n"))
        assert body == status.name.encode()
        assert not hall.asked.is_set()


async def test_who_says_nothing_in_time_is_let_go() -> None:
    """Half a head is 408; silence, and a body that drips on after its answer, only end."""
    async with serving(ConnectionLimits(100, arrival_seconds=0.2)) as hall:
        assert (await hall.heard(GET[:-2] % b"half")).startswith(b"HTTP/1.1 408 ")
        assert await hall.heard(b"") == b""
        reader, writer = await hall.dial(b"POST /answered HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
        await reader.readuntil(b"/answered")
        writer.write(b"a")
        assert await reader.read() == b""


async def test_an_answer_that_is_not_read_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves an answer unread is cut off."""
    monkeypatch.setattr(connection, "UNREAD_SECONDS", 0.2)
    async with serving() as hall:
        await hall.dial(GET % b"long")
        await hall.cut.wait()


async def test_connections_beyond_the_limit_of_an_address() -> None:
    """One more than allowed is told 503 once it asks, without troubling the others; a free place is taken again."""
    async with serving(ConnectionLimits(100, of_address=2)) as hall:
        first, second = await hall.dial(GET % b"1"), await hall.dial(GET % b"2")
        await asyncio.gather(first[0].readuntil(b"/1"), second[0].readuntil(b"/2"))
        assert (await hall.heard(GET % b"3")).startswith(b"HTTP/1.1 503 ")
        first[1].write(GET % b"gone")
        await first[0].readuntil(b"/gone")
        first[1].close()
        while not (await hall.heard(GET[:-2] % b"4" + b"connection: close\r\n\r\n")).endswith(b"/4"):
            pass


async def test_connections_far_beyond_the_limit_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is beyond those that are told so hears nothing."""
    monkeypatch.setattr(connection, "SPARE_CONNECTIONS", 0)
    async with serving(ConnectionLimits(1)) as hall:
        reader, _ = await hall.dial(GET % b"1")
        await reader.readuntil(b"/1")
        with contextlib.suppress(ConnectionError):
            assert await hall.heard(b"") == b""


@pytest.mark.parametrize(
    ("behind", "answered"),
    [
        pytest.param(b"\x00\x01", [b"/gate"], id="garbage"),
        pytest.param(GET % b"second" + b"\x00\x01", [b"/gate", b"/second"], id="a whole request, garbage"),
        pytest.param(
            b"POST /half HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
            [b"/gate"],
            id="half a request",
        ),
        pytest.param(
            GET % b"second" + b"POST /half HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nno size\r\n",
            [b"/gate", b"/second"],
            id="a whole request, half a request",
        ),
    ],
)
async def test_what_came_whole_before_is_answered(behind: bytes, answered: list[bytes]) -> None:
    """Requests before something that is refused get their own answers, in their order, and then the connection ends."""
    async with serving() as hall:
        reader, _ = await hall.dial(GET % b"gate" + behind)
        await hall.asked.wait()
        hall.gate.set()
        said = await reader.read()
        assert [part.partition(b"\r\n\r\n")[2] for part in said.split(b"HTTP/1.1 200 OK\r\n")[1:]] == answered
        assert b"x-why" not in said


def test_a_port_in_use_is_an_error_of_the_system() -> None:
    """Who binds says what to do about it."""
    with bind("127.0.0.1", 0, backlog=1) as taken, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1], backlog=1)


async def test_who_needs_no_host() -> None:
    """C-016: HTTP/1.0 knows no Host; each request of a connection has its own (RFC 9112, 3.2)."""
    async with serving() as hall:
        assert (await hall.heard(b"GET /old HTTP/1.0\r\n\r\n")).endswith(b"/old")
        said = await hall.heard(GET % b"first" + GET % b"second" + b"GET /third HTTP/1.1\r\n\r\n")
        assert (said.count(b"HTTP/1.1 200"), b"/second" in said, b"/third" in said) == (2, True, False)
