"""Doors on free ports, and a scripted peer in the manner of mllp's parrot."""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import trustme

from engine.config.listener_settings import Limits, Mllp
from engine.receive.block import Block
from engine.receive.listener import Listener, OpenListener, listen
from engine.receive.reply import Answer, BlockReply, Peer

SECONDS = 30.0


@dataclass
class Heard:
    """What a door told while it was open."""

    listening: OpenListener
    events: Counter[str]
    blocks: list[Block]
    peers: list[Peer]
    written: list[bool] = field(default_factory=list)


OpenDoor = Callable[..., Awaitable[Heard]]


@pytest.fixture
async def open_door() -> AsyncIterator[OpenDoor]:
    """Open doors on free ports; they are closed after the test."""
    opened: list[OpenListener] = []

    async def opening(answer: Answer | None = None, **options: Any) -> Heard:
        events: Counter[str] = Counter()
        blocks: list[Block] = []
        peers: list[Peer] = []
        written: list[bool] = []

        async def echo(block: Block, peer: Peer) -> BlockReply:
            return BlockReply(b"ACK of " + block.raw, written=written.append)

        async def heard(block: Block, peer: Peer) -> BlockReply:
            blocks.append(block)
            peers.append(peer)
            return await (answer or echo)(block, peer)

        given = {"port": 0} | {
            name: options.pop(name) for name in ("port", "tls", "commit_bytes", "reuse_port") if name in options
        }
        mllp = Mllp(**given)
        limits = Limits(**options.pop("limits", {}))
        door = Listener("test", mllp, limits, **options)
        listening = await listen(door, heard, lambda word, **_: events.update([word]))
        opened.append(listening)
        return Heard(listening, events, blocks, peers, written)

    yield opening
    for listening in opened:
        await listening.close()


class Script:
    """One connection that does as it is told: each step is a method's name and its argument."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Send bytes, in a TCP segment of their own where the system allows."""
        self.writer.write(data)
        await self.writer.drain()
        await asyncio.sleep(0)

    async def expect(self, data: bytes) -> None:
        """Receive exactly these bytes."""
        got = await asyncio.wait_for(self.reader.readexactly(len(data)), SECONDS)
        assert got == data

    async def wait(self, seconds: float) -> None:
        """Say nothing for a while."""
        await asyncio.sleep(seconds)

    async def end(self, _: object = None) -> None:
        """Close our side only."""
        self.writer.write_eof()

    async def closed(self, rest: bytes = b"") -> None:
        """Receive the rest, then the end of the stream, by FIN or by RST."""
        try:
            got = await asyncio.wait_for(self.reader.read(), SECONDS)
        except ConnectionResetError:
            got = b""
        assert got == rest

    async def close(self, _: object = None) -> None:
        """Close the connection."""
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()

    async def play(self, *steps: tuple[str, Any]) -> None:
        """Do one step after another."""
        for name, argument in steps:
            await getattr(self, name)(argument)


Dial = Callable[..., Awaitable[Script]]


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connect to a door; connections left open are closed after the test."""
    scripts: list[Script] = []

    async def dialling(heard: Heard, context: ssl.SSLContext | None = None, **options: Any) -> Script:
        options |= {"ssl": context, "server_hostname": "localhost"} if context else {}
        streams = await asyncio.open_connection(heard.listening.host, heard.listening.port, **options)
        script = Script(*streams)
        scripts.append(script)
        return script

    yield dialling
    for script in scripts:
        await script.close()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], Awaitable[None]]:
    """Wait until something is true."""

    async def waiting(true: Callable[[], object]) -> None:
        async with asyncio.timeout(SECONDS):
            while not true():  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.01)

    return waiting


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """A certificate authority made for this run."""
    return trustme.CA()
