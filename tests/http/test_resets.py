"""Connections to a server that the client resets at every state of a request, on the loop that the services run on."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable, MutableMapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from engine.http.binding import bind
from engine.http.connection import ConnectionLimits, ConnectionRefusal
from engine.http.server import http_server

TIMES = 24  # of each state, and with each last word: a thousand in all
AT_ONCE = 8
SECONDS = 30.0
Message = MutableMapping[str, Any]

HEAD = b"Host: x\r\n\r\n"
GET = b"GET /%s HTTP/1.1\r\n" + HEAD
ANSWER = b"HTTP/1.1 200 OK\r\n"
BODY = b"POST /gate HTTP/1.1\r\ncontent-length: 100\r\n" + HEAD + b"half"
# What the client sends and receives before it resets, and what arrives in the same moment as the reset.
STATES = [
    pytest.param((), id="before-a-byte"),
    pytest.param((b"GET /a HTTP/1.1\r\nHos",), id="half-a-head"),
    pytest.param((BODY,), id="half-a-body"),
    pytest.param((GET % b"gate",), id="before-the-answer"),
    pytest.param((GET % b"gate" * 3,), id="requests-behind-one-that-waits"),
    pytest.param((GET % b"long", 1000), id="while-the-answer-is-written"),
    pytest.param((GET % b"a", len(ANSWER)), id="after-the-answer"),
    pytest.param((b"MSH|no HTTP\r\n\r\n", 12), id="after-a-refusal"),
]
LAST = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"GET /a HTTP/1.1\r\nHos", id="half-a-head"),
    pytest.param(GET % b"a", id="a-request"),
    pytest.param(GET % b"long", id="a-request-with-a-long-answer"),
    pytest.param(b"\x00\x00", id="no-HTTP"),
]


class Server:
    """A server on the loop of the services, and an application that answers late, at length, or at once."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.gate = asyncio.Event()
        listening = bind("127.0.0.1", 0, backlog=64)
        self.listening = listening
        self.port: int = listening.getsockname()[1]
        bounds = ConnectionLimits(100, of_address=AT_ONCE)
        self.server = http_server(
            self, bounds, lambda _status: ConnectionRefusal(), context=context, keep_alive_seconds=60, grace_seconds=1
        )

    async def __call__(self, scope: Message, _receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["path"] == "/gate":
            await self.gate.wait()
        await send({"type": "http.response.start", "status": HTTPStatus.OK, "headers": []})
        for _ in range(8 if scope["path"] == "/long" else 1):
            await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    @property
    def state(self) -> Any:
        """What the server counts."""
        return self.server.server_state

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something is true."""
        async with asyncio.timeout(SECONDS):
            while not true():  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.002)


@contextlib.asynccontextmanager
async def serving(context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Serve for a test."""
    one = Server(context)
    task = asyncio.create_task(one.server.serve([one.listening]))
    try:
        await one.until(lambda: one.server.started)
        yield one
    finally:
        one.gate.set()
        one.server.should_exit = True
        await task


def dialled(port: int, context: ssl.SSLContext | None = None) -> socket.socket:
    """Return a connection that is reset when it is closed."""
    opened = socket.socket()
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    opened.connect(("127.0.0.1", port))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    opened.settimeout(SECONDS)
    return context.wrap_socket(opened, server_hostname="localhost") if context else opened


def play(opened: socket.socket, *steps: bytes | int) -> None:
    """Send bytes, or receive so many."""
    for step in steps:
        if isinstance(step, bytes):
            opened.sendall(step)
        else:
            left = step
            while left and (got := opened.recv(left)):
                left -= len(got)


def descriptors() -> int:
    """Return how many descriptors this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def resetting(
    one: Server, dial: Callable[[], socket.socket], steps: tuple[bytes | int, ...], last: bytes
) -> None:
    """Reset connections, see all that belongs to them gone, and be served as before."""
    before = descriptors()
    for _ in range(0, TIMES, AT_ONCE):
        clients = await asyncio.gather(*(asyncio.to_thread(dial) for _ in range(AT_ONCE)))
        await asyncio.gather(*(asyncio.to_thread(play, client, *steps) for client in clients))
        # In one turn of the loop, so that it hears of the bytes and of the reset at once.
        for client in clients:
            with contextlib.suppress(ConnectionError):
                play(client, last)
            client.close()
        # Behind a whole request nothing is read, so that the reset is heard of once that is answered.
        one.gate.set()
        await one.until(lambda: not (one.state.connections or one.state.tasks))
        one.gate.clear()
    assert descriptors() == before
    client = await asyncio.to_thread(dial)
    await asyncio.to_thread(client.sendall, GET % b"a")
    assert (await asyncio.to_thread(client.recv, len(ANSWER))).startswith(ANSWER)
    client.close()
    await one.until(lambda: not one.state.connections)


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("steps", STATES)
def test_a_reset_gives_the_place_back(steps: tuple[bytes | int, ...], last: bytes) -> None:
    """A connection that is reset leaves neither a place, nor a task, nor a descriptor taken."""

    async def running() -> None:
        async with serving() as one:
            await resetting(one, partial(dialled, one.port), steps, last)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running())


@pytest.mark.parametrize("last", LAST)
def test_a_reset_under_tls_gives_the_place_back(last: bytes, tmp_path: Path) -> None:
    """The same behind TLS."""
    authority = trustme.CA()
    mine, theirs = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("localhost").configure_cert(mine)
    authority.configure_trust(theirs)

    async def running() -> None:
        async with serving(mine) as one:
            await resetting(one, partial(dialled, one.port, theirs), (GET % b"gate",), last)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running())
