"""Connections that the peer resets at every state of a conversation, on the loop that the engine runs on."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from engine.config.listener_settings import Limits, Mllp, Tls
from engine.receive.block import Block, enclose
from engine.receive.conversation import Conversation
from engine.receive.listener import Listener, OpenListener, listen
from engine.receive.listener.connection import ListenerConnection
from engine.receive.outbox import Outbox
from engine.receive.reply import BlockReply, Peer

TIMES = 24  # of each state, and with each last word: a thousand in all
AT_ONCE = 8
LARGE = b"x" * 4_000_000
SECONDS = 30.0


@dataclass
class Door:
    """A listener on the engine's loop, and what happened there."""

    opened: OpenListener
    events: Counter[str] = field(default_factory=Counter)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until something is true."""
        async with asyncio.timeout(SECONDS):
            while not true():  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.002)

    def has_seen(self, what: str, connections: int) -> bool:
        """Whether so many connections have come as far as that."""
        open_ = self.opened._factory.open
        if what == "bytes":
            return len(open_) == connections and not any(one.silent for one in open_)
        if what == "stopped":
            return self.opened.answering == 4 * connections
        return what != "answering" or self.opened.answering == connections

    @property
    def places(self) -> int:
        """How many places are taken, as the limits count them."""
        return self.opened._factory._addresses.total()


@contextlib.asynccontextmanager
async def opened(tls: Tls | None = None, **limits: Any) -> AsyncIterator[Door]:
    """Open a door whose answer says with its first letter what it does: W waits, L is large, E comes twice."""
    doors: list[Door] = []

    async def later(door: Door) -> bytes:
        await door.gate.wait()
        return b"AA"

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        door = doors[0]
        if block.raw.startswith(b"W"):
            await door.gate.wait()
        if block.raw.startswith(b"E"):
            return BlockReply(b"CA", later=later(door))
        return BlockReply(LARGE if block.raw.startswith(b"L") else b"ACK")

    listener = Listener("test", Mllp(port=0, tls=tls), Limits(**limits))
    events: Counter[str] = Counter()
    door = Door(await listen(listener, answer, lambda kind, **_: events.update([kind])), events)
    doors.append(door)
    try:
        yield door
    finally:
        door.gate.set()
        await door.opened.close()


def on_the_engines_loop(running: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on uvloop, as the engine does."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running)


class Client:
    """A plain socket that is reset when it is closed."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.settimeout(SECONDS)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="localhost")

    def play(self, *steps: bytes | int) -> None:
        """Send bytes, or receive so many."""
        for step in steps:
            if isinstance(step, bytes):
                self.socket.sendall(step)
            else:
                left = step
                while left and (got := self.socket.recv(left)):
                    left -= len(got)

    def reset(self) -> None:
        """Reset the connection."""
        self.socket.close()


ACK = len(enclose(b"ACK"))
CA = len(enclose(b"CA"))
HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
Steps = tuple[bytes | int, ...]

# What the client does before it resets, and what the door has seen by then.
PLAIN = [
    pytest.param((), "", id="before-a-byte"),
    pytest.param((b"??",), "bytes", id="stray-bytes"),
    pytest.param((b"\x0bMSH|half",), "bytes", id="half-a-block"),
    pytest.param((b"\x0bMSH|half\x1c",), "bytes", id="end-without-CR"),
    pytest.param((enclose(b"A"),), "", id="whole-block"),
    pytest.param((enclose(b"W"),), "answering", id="before-the-acknowledgement"),
    pytest.param((enclose(b"W") + b"\x0bhalf",), "answering", id="half-a-block-behind-an-answer-under-way"),
    pytest.param((enclose(b"L"), 1000), "", id="while-the-acknowledgement-is-written"),
    pytest.param((enclose(b"A"), ACK), "", id="after-the-acknowledgement"),
    pytest.param((enclose(b"E"), CA), "answering", id="between-accept-and-application-acknowledgement"),
    pytest.param((enclose(b"W") * 600,), "stopped", id="while-reading-is-stopped"),
    pytest.param((b"\x0b" + b"A" * 5000,), "", id="block-over-the-limit"),
]
SEALED = [
    pytest.param((), False, id="before-a-handshake"),
    pytest.param((HELLO,), False, id="within-a-handshake"),
    pytest.param((enclose(b"W"),), True, id="before-the-acknowledgement"),
    pytest.param((enclose(b"L"), 1000), True, id="while-the-acknowledgement-is-written"),
]


# What arrives in the same moment as the reset.
LAST = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"\x0bhalf", id="half-a-block"),
    pytest.param(enclose(b"A"), id="a-block"),
]


async def reset_often(door: Door, connect: Callable[[], Client], steps: Steps, seen: str, last: bytes) -> int:
    """Reset connections, as many at once as one address may have, and see each place given back; return how many."""
    done = 0
    while done < TIMES:
        clients = await asyncio.gather(*(asyncio.to_thread(connect) for _ in range(AT_ONCE)))
        await asyncio.gather(*(asyncio.to_thread(client.play, *steps) for client in clients))
        await door.until(lambda: door.has_seen(seen, AT_ONCE))
        # In one turn of the loop, so that it hears of the bytes and of the reset at once.
        for client in clients:
            client.play(last)
            client.reset()
        if seen != "stopped":
            await door.until(lambda: not door.places)
        door.gate.set()
        await door.until(lambda: not (door.places or door.opened.connections or door.opened.answering))
        door.gate.clear()
        done += AT_ONCE
    return done


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize(("steps", "seen"), PLAIN)
def test_a_reset_gives_the_place_back(steps: Steps, seen: str, last: bytes) -> None:
    """A connection that is reset leaves neither a place nor a descriptor taken, whatever it was about."""

    async def running() -> None:
        async with opened(in_flight=4, block_bytes=4096, connections_per_address=AT_ONCE) as door:
            plain = partial(Client, door.opened.port)
            await counted(door, plain, plain, steps, seen, last)

    on_the_engines_loop(running())


def test_a_reset_before_the_connection_is_accepted() -> None:
    """Nor does one that was over before anybody looked at it."""

    async def running() -> None:
        async with opened(connections_per_address=AT_ONCE) as door:
            for last in (b"", b"\x0bhalf", enclose(b"A")):
                for _ in range(AT_ONCE):
                    client = Client(door.opened.port)
                    client.play(last)
                    client.reset()
                await door.until(lambda: door.events["connected"] and not door.places)
                door.events.clear()

    on_the_engines_loop(running())


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize(("steps", "sealed"), SEALED)
def test_a_reset_under_tls_gives_the_place_back(
    steps: Steps, sealed: bool, last: bytes, authority: trustme.CA, tmp_path: Path
) -> None:
    """The same behind TLS, in the handshake and after it."""
    issued = authority.issue_cert("localhost")
    (tmp_path / "server.pem").write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(tmp_path / "server.key")
    tls = Tls(certificate=str(tmp_path / "server.pem"), key=str(tmp_path / "server.key"))
    context = ssl.create_default_context()
    authority.configure_trust(context)

    async def running() -> None:
        async with opened(tls, connections_per_address=AT_ONCE) as door:
            seen = "answering" if steps[:1] == (enclose(b"W"),) else ""
            good = partial(Client, door.opened.port, context)
            await counted(door, good if sealed else partial(Client, door.opened.port), good, steps, seen, last)

    on_the_engines_loop(running())


def descriptors() -> int:
    """Return how many descriptors this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def counted(
    door: Door, connect: Callable[[], Client], good: Callable[[], Client], steps: Steps, seen: str, last: bytes
) -> None:
    """Reset and count; at the end the same address is served as before."""
    before = descriptors()
    assert await reset_often(door, connect, steps, seen, last) == TIMES
    assert "refused-full" not in door.events
    assert descriptors() == before
    client = await asyncio.to_thread(good)
    await asyncio.to_thread(client.play, enclose(b"A"), ACK)
    client.reset()
    await door.until(lambda: not door.places)


def broken(*_: Any, **__: Any) -> Any:
    """Stand for a fault of our own."""
    raise RuntimeError


@pytest.mark.parametrize(
    ("owner", "name", "steps"),
    [
        pytest.param(ListenerConnection, "_begin", (), id="connection-made"),
        pytest.param(ListenerConnection, "dataReceived", (b"x",), id="data-received"),
        pytest.param(ListenerConnection, "send", (enclose(b"A"),), id="write"),
        pytest.param(ListenerConnection, "flushed", (enclose(b"L"), 4_000_000), id="flushed"),
        pytest.param(Conversation, "_put", (enclose(b"A"),), id="reply"),
        pytest.param(Conversation, "_block_time", (b"\x0bhalf",), id="timer"),
        pytest.param(Conversation, "lost", (b"\x0bhalf", "reset"), id="connection-lost"),
        pytest.param(Outbox, "post", (enclose(b"A"),), id="outbox"),
    ],
)
def test_whatever_raises_ends_the_connection(
    owner: type, name: str, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in any callback of a connection ends that connection and gives its place back; the next one is served."""

    async def running() -> None:
        async with opened(block_seconds=0.05, connections_per_address=1) as door:
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, broken)
                for _ in range(3):
                    client = await asyncio.to_thread(Client, door.opened.port)
                    with contextlib.suppress(ConnectionError):
                        await asyncio.to_thread(client.play, *(step for step in steps if step != "reset"))
                    if "reset" in steps:
                        await door.until(lambda: door.has_seen("bytes", 1))
                        client.reset()
                    await door.until(lambda: not door.places)
                    client.reset()
            last = await asyncio.to_thread(Client, door.opened.port)
            await asyncio.to_thread(last.play, enclose(b"A"), ACK)
            last.reset()

    on_the_engines_loop(running())
