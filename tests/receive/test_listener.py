"""The listener on real sockets: order, limits, backpressure, who may come in, pausing and closing."""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from ipaddress import ip_network
from typing import Any

import pytest
from twisted.internet.error import CannotListenError

from engine import fault
from engine.config.listener_settings import Limits, Mllp
from engine.errors import StartError
from engine.receive.block import Block, BlockKind, enclose
from engine.receive.listener import Listener, admission, listen
from engine.receive.reply import BlockReply, Peer

Eventually = Callable[[Callable[[], object]], Awaitable[None]]

ACK_A, ACK_B = enclose(b"ACK of A"), enclose(b"ACK of B")


@pytest.mark.parametrize(
    ("steps", "events"),
    [
        pytest.param([("send", enclose(b"A")), ("expect", ACK_A)], {}, id="one"),
        pytest.param([("send", enclose(b"A") + enclose(b"B")), ("expect", ACK_A + ACK_B)], {}, id="two-in-one-segment"),
        pytest.param(
            [*[("send", bytes([byte])) for byte in enclose(b"A")], ("expect", ACK_A)], {}, id="one-byte-segments"
        ),
        pytest.param(
            [("send", b"\x0bA"), ("wait", 0.05), ("send", b"\x1c\r"), ("expect", ACK_A)], {}, id="half-and-half"
        ),
        pytest.param(
            [("send", b"??" + enclose(b"A") + b"\r\n" + enclose(b"B")), ("expect", ACK_A + ACK_B)],
            {"stray-bytes": 2},
            id="garbage-between-blocks",
        ),
        pytest.param(
            [("send", b"\x0bA\x1c" + enclose(b"B")), ("expect", ACK_A + ACK_B)], {"bare-end": 1}, id="end-without-CR"
        ),
        pytest.param([("send", b"\x0bA\x0bB\x1c\r"), ("expect", ACK_A + ACK_B)], {}, id="restart-inside-a-block"),
        pytest.param([("close", None)], {"probe": 1}, id="connection-without-a-byte"),
        pytest.param(
            [("send", b"\x0b\x1c\r" + enclose(b"A")), ("expect", ACK_A)], {"probe": 1}, id="empty-block-is-a-probe"
        ),
        pytest.param([("send", b"\x0bA"), ("close", None)], {"block-cut-off": 1}, id="cut-off"),
        pytest.param(
            [("send", b"\x0bA\x1c"), ("end", None), ("closed", ACK_A)], {"bare-end": 1}, id="half-closed-without-CR"
        ),
        pytest.param([("send", b"\x0bA\x1c"), ("expect", ACK_A)], {"bare-end": 1}, id="end-without-CR-and-silence"),
        pytest.param(
            [("send", b"\x0bA\x1cB\x1c\r" + enclose(b"B")), ("expect", enclose(b"ACK of A\x1cB") + ACK_B)],
            {},
            id="end-byte-within-a-block",
        ),
        pytest.param(
            [("send", enclose(b"A") + enclose(b"B")), ("end", None), ("closed", ACK_A + ACK_B)],
            {},
            id="half-closed-sender",
        ),
        pytest.param(
            [("send", enclose(b"\x06")), ("send", enclose(b"A")), ("expect", ACK_A)], {"commit": 1}, id="commit"
        ),
    ],
)
async def test_conversations(
    open_door: Any, dial: Any, eventually: Eventually, steps: list[tuple[str, Any]], events: dict[str, int]
) -> None:
    """Each conversation goes as the page of the wire says."""
    heard = await open_door()
    await (await dial(heard)).play(*steps, ("close", None))
    await eventually(lambda: not heard.listening.connections)
    assert heard.events == {"connected": 1, **events}


async def test_replies_keep_the_order_of_requests(open_door: Any, dial: Any) -> None:
    """A quick second answer waits for the slow first one, and both answers run at the same time."""
    second = asyncio.Event()

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        if block.raw == b"A":
            await second.wait()
        second.set()
        return BlockReply(b"ACK of " + block.raw)

    script = await dial(await open_door(answer))
    await script.play(("send", enclose(b"A") + enclose(b"B")), ("expect", ACK_A + ACK_B))


async def test_a_later_reply_leaves_out_of_order(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """The application acknowledgement of enhanced mode follows when it is there, past other replies."""
    told: list[bool] = []
    other = asyncio.Event()

    async def later() -> bytes:
        await other.wait()
        return b"AA"

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        if block.raw == b"A":
            return BlockReply(b"CA", later=later(), later_written=told.append)
        return BlockReply(b"CA", written=lambda _written: other.set())

    script = await dial(await open_door(answer))
    await script.play(("send", enclose(b"A") + enclose(b"B")), ("expect", enclose(b"CA") * 2 + enclose(b"AA")))
    await eventually(lambda: told == [True])


async def test_a_later_reply_without_a_line_is_unsent(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """When the connection is gone, the answer goes on and its reply is told to be unsent."""
    gate = asyncio.Event()
    told: list[bool] = []

    async def later() -> bytes:
        await gate.wait()
        return b"AA"

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"CA", later=later(), later_written=told.append)

    heard = await open_door(answer)
    script = await dial(heard)
    await script.play(("send", enclose(b"A")), ("expect", enclose(b"CA")))
    reset(script)
    await eventually(lambda: not heard.listening.connections)
    gate.set()
    await eventually(lambda: told == [False])


def reset(script: Any) -> None:
    """Close a connection with RST."""
    handle = script.writer.get_extra_info("socket")
    handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    script.writer.transport.abort()


async def test_written_is_told_both_ways(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """A reply is told to be written once it is in the socket, and unwritten where the line was gone."""
    gate = asyncio.Event()
    told: list[bool] = []

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        if block.raw == b"B":
            await gate.wait()
        return BlockReply(b"ACK of " + block.raw, written=told.append)

    heard = await open_door(answer)
    script = await dial(heard)
    await script.play(("send", enclose(b"A")), ("expect", ACK_A))
    assert told == [True]
    await script.send(enclose(b"B"))
    await eventually(lambda: heard.listening.answering)
    reset(script)
    await eventually(lambda: not heard.listening.connections)
    gate.set()
    await eventually(lambda: told == [True, False])


async def test_nothing_to_say_writes_nothing(open_door: Any, dial: Any) -> None:
    """A reply of None leaves no bytes, and the next one follows."""

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(None if block.raw == b"A" else b"ACK of B")

    script = await dial(await open_door(answer))
    await script.play(("send", enclose(b"A") + enclose(b"B")), ("expect", ACK_B))


async def test_several_replies_to_one_block(open_door: Any, dial: Any) -> None:
    """A tuple of replies leaves as one block each."""

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        return BlockReply((b"1", b"2"))

    script = await dial(await open_door(answer))
    await script.play(("send", enclose(b"A")), ("expect", enclose(b"1") + enclose(b"2")))


async def test_a_failing_answer_closes_the_line(open_door: Any, dial: Any) -> None:
    """When the answer fails, the sender gets no acknowledgement, but a closed connection."""

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        if block.raw == b"B":
            raise RuntimeError
        return BlockReply(b"ACK of " + block.raw)

    heard = await open_door(answer)
    script = await dial(heard)
    await script.play(("send", enclose(b"A") + enclose(b"B") + enclose(b"C")), ("closed", ACK_A))
    assert heard.events["answer-failed"] == 1


async def test_close_after_the_reply(open_door: Any, dial: Any) -> None:
    """A reply that closes is still read by a sender which has already sent more."""
    told: list[bool] = []

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"ACK of " + block.raw, close=True, written=told.append)

    script = await dial(await open_door(answer))
    await script.play(("send", enclose(b"A") + enclose(b"B") + b"x" * 50_000), ("closed", ACK_A))
    assert sorted(told) == [False, True]


async def test_a_close_does_not_cut_off_the_last_reply(open_door: Any, dial: Any) -> None:
    """While the sender still pours in megabytes, the reply that closes reaches it, and no reset does."""

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"ACK of " + block.raw, close=True)

    script = await dial(await open_door(answer))
    script.writer.write(enclose(b"A") + enclose(b"x" * 500_000) * 10)
    await asyncio.sleep(0.05)
    await script.closed(ACK_A)


async def test_an_oversize_block_is_refused_and_closed(open_door: Any, dial: Any) -> None:
    """The fragment up to the limit is answered, then the connection ends, and what still comes is dropped."""

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"AE" if block.kind is BlockKind.OVERSIZE else b"AA")

    heard = await open_door(answer, limits={"block_bytes": 1024})
    script = await dial(heard)
    await script.play(("send", b"\x0b" + b"M" * 100_000), ("closed", enclose(b"AE")))
    assert [len(block.raw) for block in heard.blocks] == [1024]


@pytest.mark.parametrize(
    ("limits", "first", "word"),
    [
        pytest.param({"block_seconds": 0.1}, b"\x0bA", "block-too-slow", id="a-block-in-drips"),
        pytest.param({"idle_seconds": 0.5}, enclose(b"A"), "idle", id="nothing-more"),
    ],
)
async def test_time_is_bounded(open_door: Any, dial: Any, limits: dict[str, float], first: bytes, word: str) -> None:
    """A block that takes too long, or a line idle for too long, is closed."""
    heard = await open_door(limits=limits)
    script = await dial(heard)
    await script.play(("send", first), ("closed", ACK_A if word == "idle" else b""))
    assert heard.events[word] == 1


async def test_idle_between_blocks_is_allowed_by_default(open_door: Any, dial: Any) -> None:
    """Silence between blocks does not count towards the seconds of a block."""
    script = await dial(await open_door(limits={"block_seconds": 0.05}))
    await script.play(
        ("send", enclose(b"A")), ("expect", ACK_A), ("wait", 0.15), ("send", enclose(b"B")), ("expect", ACK_B)
    )


async def test_in_flight_is_bounded(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """Not more blocks than `in_flight` are answered at a time; the others wait and lose nothing."""
    gate = asyncio.Event()
    running = 0
    most = 0

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1
        return BlockReply(block.raw)

    heard = await open_door(answer, limits={"in_flight": 4})
    script = await dial(heard)
    sent = b"".join(enclose(b"%d" % number) for number in range(100))
    await script.send(sent)
    await eventually(lambda: heard.listening.answering == 4)
    gate.set()
    await script.expect(sent)
    assert most == 4


async def test_answers_that_stand_still_close_the_line(open_door: Any, dial: Any) -> None:
    """When nothing moves for `stall_seconds` while reading is stopped, the connection is closed."""

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        await asyncio.sleep(60)
        return BlockReply(b"late")

    heard = await open_door(answer, limits={"in_flight": 1}, stall_seconds=0.1)
    script = await dial(heard)
    await script.play(("send", enclose(b"A")), ("closed", b""))
    assert heard.events["stalled"] == 1


async def test_a_peer_that_never_reads_is_closed(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """Reply bytes that lie unread stop reading, and after `stall_seconds` the connection is closed."""
    told: list[bool] = []

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"x" * 200_000, written=told.append)

    heard = await open_door(answer, limits={"unread_reply_bytes": 1024}, stall_seconds=0.2)
    script = await dial(heard, limit=1024)
    script.reader._transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(50):
        await script.send(enclose(b"A"))
        await asyncio.sleep(0.001)
    await eventually(lambda: heard.events["stalled"])
    await eventually(lambda: not heard.listening.connections)
    assert told[-1] is False
    assert len(heard.blocks) < 50


@pytest.mark.parametrize(
    ("options", "word", "by"),
    [
        ({"allow": (ip_network("10.0.0.0/8"),)}, "refused-address", "the allow list"),
        ({"limits": {"connections_per_address": 1}}, "refused-full", "limits.connections_per_address 1"),
        ({"limits": {"connections": 1}}, "refused-full", "limits.connections 1"),
    ],
)
async def test_who_may_not_come_in(open_door: Any, dial: Any, options: dict[str, Any], word: str, by: str) -> None:
    """Who is not allowed, or for whom there is no room, is closed before a byte is read, and is named."""
    heard = await open_door(**options)
    if word == "refused-full":
        await (await dial(heard)).play(("send", enclose(b"A")), ("expect", ACK_A))
    refused = await dial(heard)
    await refused.play(("closed", b""))
    assert heard.events[word] == 1
    assert len(heard.blocks) == (word == "refused-full")
    assert heard.listening.refused() == {("127.0.0.1", by): 1}


async def test_the_silent_give_way_where_there_is_no_room(
    open_door: Any, dial: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle connections that never sent a byte cannot lock a sender out; one that has spoken keeps its place."""
    monkeypatch.setattr(admission, "SILENT_SECONDS", 0.0)
    heard = await open_door(limits={"connections": 2})
    speaker, silent = await dial(heard), await dial(heard)
    await speaker.play(("send", enclose(b"A")), ("expect", ACK_A))
    await eventually(lambda: heard.listening.connections == 2)
    late = await dial(heard)
    await late.play(("send", enclose(b"A")), ("expect", ACK_A))
    await silent.play(("closed", b""))
    await speaker.play(("send", enclose(b"A")), ("expect", ACK_A))
    assert heard.events["gave-way"] == 1
    await (await dial(heard)).play(("closed", b""))
    assert heard.events["refused-full"] == 1


async def test_a_place_is_free_again(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """A connection that ends gives its place to the next one."""
    heard = await open_door(limits={"connections": 1}, allow=(ip_network("127.0.0.0/8"),))
    for _ in range(3):
        await (await dial(heard)).play(("send", enclose(b"A")), ("expect", ACK_A), ("close", None))
        await eventually(lambda: not heard.listening.connections)
    assert heard.events == {"connected": 3}


async def test_drain_finishes_what_is_under_way(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """Draining answers what was begun, refuses new connections, and closes."""
    gate = asyncio.Event()

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        await gate.wait()
        return BlockReply(b"ACK of " + block.raw)

    heard = await open_door(answer)
    script = await dial(heard)
    await script.send(enclose(b"A") + b"\x0bB")
    await eventually(lambda: heard.listening.answering)
    draining = asyncio.create_task(heard.listening.drain(5))
    await asyncio.sleep(0.02)
    with pytest.raises(ConnectionRefusedError):
        await dial(heard)
    gate.set()
    await script.closed(ACK_A)
    await script.close()
    assert await draining is True
    assert heard.listening.connections == 0


async def test_drain_has_an_end(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """Past its seconds a drain cancels what is still under way and says so."""

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        await asyncio.sleep(60)
        return BlockReply(b"late")

    heard = await open_door(answer)
    script = await dial(heard)
    await script.send(enclose(b"A"))
    await eventually(lambda: heard.listening.answering)
    assert await heard.listening.drain(0.05) is False
    assert heard.listening.answering == 0
    await script.closed(b"")


async def test_commit_bytes(open_door: Any, dial: Any) -> None:
    """With MLLP release 2 each block is answered by a commit byte first, 0x06 where it was stored, else 0x15."""

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"ACK of " + block.raw, stored=block.raw == b"A")

    script = await dial(await open_door(answer, commit_bytes=True))
    await script.play(
        ("send", enclose(b"A") + enclose(b"B")), ("expect", b"\x0b\x06\x1c\r" + ACK_A + b"\x0b\x15\x1c\r" + ACK_B)
    )


async def test_a_port_in_use_is_said_in_one_line(open_door: Any) -> None:
    """The error names channel, address, cause and next step."""
    heard = await open_door()
    port = heard.listening.port
    with pytest.raises(StartError) as refused:
        await listen(Listener("second", Mllp(port=port)), unasked, lambda _: None)
    assert str(refused.value) == (
        f"channel second cannot listen on 127.0.0.1:{port}: the port is in use; stop the other program or set another"
        " port in the channel file"
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(errno.EACCES, "not permitted; take a port above 1023", id="not-permitted"),
        pytest.param(errno.EADDRNOTAVAIL, "Cannot assign requested address; check listen.mllp.host", id="no-address"),
    ],
)
async def test_why_a_port_cannot_be_had(monkeypatch: pytest.MonkeyPatch, number: int, words: str) -> None:
    """Whatever keeps the door shut is said in one line with the next step."""

    def refuse(*_: object) -> None:
        raise CannotListenError("127.0.0.1", 104, OSError(number, os.strerror(number)))

    monkeypatch.setattr("twisted.internet.tcp.Port.startListening", refuse)
    with pytest.raises(StartError) as refused:
        await listen(Listener("test", Mllp(port=104)), unasked, lambda _: None)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


async def unasked(_block: Block, _peer: Peer) -> BlockReply:
    """Never called."""
    raise AssertionError


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
async def test_hosts(dial: Any, host: str) -> None:
    """A door listens on an address of version 4 or 6, or on a name."""

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"ACK of " + block.raw)

    listening = await listen(Listener("test", Mllp(host=host, port=0)), answer, lambda _: None)
    try:
        reader, writer = await asyncio.open_connection(listening.host, listening.port)
        writer.write(enclose(b"A"))
        assert await reader.readexactly(len(ACK_A)) == ACK_A
        writer.close()
        await writer.wait_closed()
    finally:
        await listening.close()


async def test_a_block_cut_off_anywhere_is_dropped(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """A connection that ends inside a block, at whatever byte before its end byte, leaves no answer and no block."""
    whole = enclose(b"MSH|^~\\&|EPIC\rPID|1\r")
    heard = await open_door(limits={"connections_per_address": 64})
    for size in range(1, len(whole) - 1):
        await (await dial(heard)).play(("send", whole[:size]), ("close", None))
    await eventually(lambda: heard.events["block-cut-off"] == len(whole) - 2)
    assert not heard.blocks
    await (await dial(heard)).play(("send", whole[:-1]), ("close", None))
    await eventually(lambda: [block.raw for block in heard.blocks] == [whole[1:-2]])


async def test_draining_starts_nothing_new(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """Blocks that have come in but were not begun are neither answered nor acknowledged by a drain."""
    gate = asyncio.Event()

    async def answer(block: Block, _peer: Peer) -> BlockReply:
        await gate.wait()
        return BlockReply(b"ACK of " + block.raw)

    heard = await open_door(answer, limits={"in_flight": 1})
    script = await dial(heard)
    await script.send(enclose(b"A") + enclose(b"B") * 10)
    await eventually(lambda: heard.listening.answering)
    draining = asyncio.create_task(heard.listening.drain(5))
    await asyncio.sleep(0.02)
    gate.set()
    await script.closed(ACK_A)
    await script.close()
    assert await draining
    assert len(heard.blocks) == 1


async def test_an_armed_fault_keeps_to_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fault armed nothing listens beyond loopback, so it cannot run in production."""
    monkeypatch.setattr(fault, "_armed", [])
    fault.arm("F01:kill")
    door = Listener("test", Mllp(host="0.0.0.0", port=0), Limits())  # noqa: S104 - refused
    with pytest.raises(StartError, match="beyond loopback"):
        await listen(door, unasked, lambda _: None)


@pytest.mark.parametrize(
    ("point", "rest", "answered"),
    [
        pytest.param("F01:raise", b"", 0, id="F01-block-complete"),
        pytest.param("F06:raise", ACK_A[: len(ACK_A) // 2], 1, id="F06-half-an-acknowledgement"),
        pytest.param("F07:raise", ACK_A, 1, id="F07-acknowledgement-written"),
    ],
)
async def test_fault_points(
    open_door: Any, dial: Any, monkeypatch: pytest.MonkeyPatch, point: str, rest: bytes, answered: int
) -> None:
    """At each fault point exactly what the point's name says is on the wire, and the connection ends."""
    heard = await open_door()
    script = await dial(heard)
    monkeypatch.setattr(fault, "_armed", [])
    fault.arm(point)
    await script.send(enclose(b"A"))
    got = await script.reader.readexactly(len(rest))
    assert got == rest
    await script.closed(b"")
    assert len(heard.blocks) == answered
    assert heard.written == [point == "F07:raise"] * answered


async def test_the_peer_is_told(open_door: Any, dial: Any) -> None:
    """The answer hears address and port of the sender, and no TLS name without a client certificate."""
    heard = await open_door()
    script = await dial(heard)
    await script.play(("send", enclose(b"A")), ("expect", ACK_A))
    assert heard.peers == [Peer(*script.writer.get_extra_info("sockname"), "")]


async def test_keepalive_is_on(open_door: Any, dial: Any, eventually: Eventually) -> None:
    """A peer that is gone without a word is noticed: keepalive after 60 s, every 10 s, 6 times."""
    heard = await open_door()
    await dial(heard)
    await eventually(lambda: heard.listening.connections)
    (connection,) = heard.listening._factory.open
    handle = connection.transport.getHandle()
    assert handle.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    assert handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_nodes_on_one_machine_share_a_port(open_door: Any) -> None:
    """Where both say so, each gets some of the connections; a third that does not is refused."""
    one = await open_door(reuse_port=True)
    other = await open_door(reuse_port=True, port=one.listening.port)
    for _ in range(64):
        reader, writer = await asyncio.open_connection("127.0.0.1", one.listening.port)
        writer.write(enclose(b"A"))
        assert await reader.readexactly(len(ACK_A)) == ACK_A
        writer.close()
        await writer.wait_closed()
    assert len(one.blocks) + len(other.blocks) == 64
    assert one.blocks
    assert other.blocks
    with pytest.raises(StartError, match="the port is in use"):
        await open_door(port=one.listening.port)
