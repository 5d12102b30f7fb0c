"""A simulated receiver over real sockets: what it takes, what it answers, and each of its faults."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from engine.acknowledge.code import AckCode
from engine.config.channel import AcknowledgementMode
from engine.mllp.client import MllpConnection, connect
from engine.ops.receiver.receiver import (
    GARBAGE,
    MllpReceiver,
    ReceivedMessage,
    ReceiverBehaviour,
    ReceiverEvent,
    ReceiverFault,
    Repeat,
)
from engine.ops.sender.line import read_acks
from tests.ops.cli.sending.test_send import message
from tests.relay.receivers import Certificates

SECONDS: Final = 60.0


@contextlib.asynccontextmanager
async def line(receiver: MllpReceiver, tls: ssl.SSLContext | None = None) -> AsyncIterator[MllpConnection]:
    """A connection to a receiver."""
    opened = await connect("127.0.0.1", receiver.port, seconds=SECONDS, limit_bytes=1_048_576, tls=tls)
    try:
        async with asyncio.timeout(SECONDS):
            yield opened
    finally:
        await opened.close()


async def exchange(opened: MllpConnection, raw: bytes, answers: int = 1) -> list[tuple[str, str]]:
    """Send a message; return MSA-1 and MSA-2 of so many answers."""
    await opened.send(raw)
    acks = [ack for _ in range(answers) for ack in read_acks(await opened.receive())]
    return [(ack.code, ack.control_id) for ack in acks]


async def until_ended(receiver: MllpReceiver) -> None:
    """Wait until every connection has ended on the receiver's side."""
    async with asyncio.timeout(SECONDS):
        await asyncio.gather(*receiver._tasks)


async def test_what_comes_is_kept_byte_for_byte_and_answered() -> None:
    """Bytes, connection and order are the sender's; each answer names its message."""
    first, second = message("C1") + b"NTE|1||\xff\xfe\r\nZZZ|  \n", message("C2")
    async with MllpReceiver() as receiver:
        async with line(receiver) as opened:
            assert await exchange(opened, first) == [("AA", "C1")]
        async with line(receiver) as opened:
            assert await exchange(opened, second) == [("AA", "C2")]
    assert [(one.raw, one.connection, one.repeat) for one in receiver.received] == [
        (first, 1, Repeat.NEW), (second, 2, Repeat.NEW),
    ]  # fmt: skip
    assert receiver.answers == {AckCode.AA: 2}


async def test_repeats_are_told_from_other_messages_of_the_same_number() -> None:
    """The same MSH-10 with the same bytes is a repeat, with other bytes it is another message; senders are apart."""
    changed = message("C1").replace(b"100001", b"100002")
    elsewhere = message("C1").replace(b"|REG|", b"|LAB|")  # MSH-3
    async with MllpReceiver() as receiver, line(receiver) as opened:
        for raw in (message("C1"), message("C1"), changed, changed, elsewhere, message(""), message("")):
            await exchange(opened, raw)
    assert [one.repeat for one in receiver.received] == [
        Repeat.NEW, Repeat.SAME, Repeat.OTHER, Repeat.SAME, Repeat.NEW, Repeat.NEW, Repeat.SAME,
    ]  # fmt: skip
    assert receiver.messages == {Repeat.NEW: 3, Repeat.SAME: 3, Repeat.OTHER: 1}


@pytest.mark.parametrize(
    ("answer", "mode", "tail", "codes"),
    [
        pytest.param("AE", "auto", "", ["AE"], id="original"),
        pytest.param("AA", "auto", "|||AL|NE", ["CA"], id="accept-only"),
        pytest.param("AA", "auto", "|||AL|AL", ["CA", "AA"], id="both"),
        pytest.param("AR", "auto", "|||AL|ER", ["CA", "AR"], id="application-on-error"),
        pytest.param("AA", "auto", "|||AL|ER", ["CA"], id="application-on-error-only"),
        pytest.param("AA", "auto", "|||NE|NE", [], id="nothing-asked-for"),
        pytest.param("AA", "original", "|||AL|AL", ["AA"], id="original-whatever-is-asked"),
        pytest.param("AA", "enhanced", "", ["CA"], id="enhanced-though-nothing-is-asked"),
        pytest.param("CA", "auto", "", ["CA"], id="an-accept-that-nobody-asked-for"),
        pytest.param("CR", "auto", "|||AL|AL", ["CR"], id="refused-at-once"),
    ],
)
async def test_the_answers_are_those_of_the_mode(answer: str, mode: str, tail: str, codes: list[str]) -> None:
    """MSH-15 and MSH-16, or the mode that is set, say which acknowledgements are sent, in which order."""
    behaviour = ReceiverBehaviour(AckCode(answer), AcknowledgementMode(mode))
    async with MllpReceiver(behaviour) as receiver, line(receiver) as opened:
        answered = await exchange(opened, message("C1", tail=tail), len(codes))
        probed = await exchange(opened, message("C2", tail="|||NE|AL"))
    assert answered == [(code, "C1") for code in codes]
    assert [control_id for _, control_id in probed] == ["C2"]


async def test_after_the_accept_the_next_message_is_read() -> None:
    """While the application's answers wait, the next message is accepted."""
    async with MllpReceiver(ReceiverBehaviour(delay_seconds=3600)) as receiver, line(receiver) as opened:
        assert await exchange(opened, message("C1", tail="|||AL|AL")) == [("CA", "C1")]
        assert await exchange(opened, message("C2", tail="|||AL|AL")) == [("CA", "C2")]


async def test_the_delayed_answer_of_the_application_comes() -> None:
    """After the accept, for the message it belongs to."""
    async with MllpReceiver(ReceiverBehaviour(delay_seconds=0.01)) as receiver, line(receiver) as opened:
        assert await exchange(opened, message("C1", tail="|||AL|AL"), 2) == [("CA", "C1"), ("AA", "C1")]


async def test_a_delay_comes_before_an_answer_in_original_mode() -> None:
    """A message is taken at once; what ends before its answer is due answers nothing."""
    taken = asyncio.Event()
    receiver = MllpReceiver(ReceiverBehaviour(delay_seconds=3600), observe=lambda _: taken.set())
    async with receiver:
        opened = await connect("127.0.0.1", receiver.port, seconds=SECONDS, limit_bytes=1024, tls=None)
        await opened.send(message())
        async with asyncio.timeout(SECONDS):
            await taken.wait()
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await opened.receive()
    await opened.close()


async def test_each_nth_message_is_refused() -> None:
    """Every second one AE, every third one AR where the first rule does not fit; a refusal carries ERR."""
    behaviour = ReceiverBehaviour(fail=((2, AckCode.AE), (3, AckCode.AR)))
    async with MllpReceiver(behaviour) as receiver, line(receiver) as opened:
        codes = [(await exchange(opened, message(f"C{number}")))[0][0] for number in range(1, 7)]
        await opened.send(message("C8"))
        (ack,) = read_acks(await opened.receive())
        await opened.send(message("C9"))
        (refused,) = read_acks(await opened.receive())
    assert codes == ["AA", "AE", "AR", "AE", "AA", "AE"]
    assert (ack.code, ack.errors) == ("AA", ())
    assert refused.errors == (("207", "Refused by a simulated receiver, as it was asked to"),)


async def test_a_dropped_answer_is_of_a_message_that_was_taken() -> None:
    """The second message is kept, the connection closed, and its repeat on another one answered."""
    async with MllpReceiver(ReceiverBehaviour(every={ReceiverFault.DROPPED: 2})) as receiver:
        async with line(receiver) as opened:
            await exchange(opened, message("C1"))
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await exchange(opened, message("C2"))
        async with line(receiver) as opened:
            assert await exchange(opened, message("C2")) == [("AA", "C2")]
    assert [one.repeat for one in receiver.received] == [Repeat.NEW, Repeat.NEW, Repeat.SAME]
    assert receiver.faults == {ReceiverFault.DROPPED: 1}


async def test_silence_leaves_the_connection_open() -> None:
    """The first of two messages is never answered, the second is."""
    async with MllpReceiver(ReceiverBehaviour(every={ReceiverFault.SILENT: 3})) as receiver, line(receiver) as opened:
        await exchange(opened, message("C1"))
        await exchange(opened, message("C2"))
        await opened.send(message("C3"))
        assert await exchange(opened, message("C4")) == [("AA", "C4")]
    assert receiver.faults == {ReceiverFault.SILENT: 1}
    assert [one.fault for one in receiver.received] == [None, None, ReceiverFault.SILENT, None]


async def test_garbage_and_wrong_numbers_are_no_answers() -> None:
    """A block that is no acknowledgement, then one of another message; where both fall on one, garbage it is."""
    every = {ReceiverFault.GARBAGE: 2, ReceiverFault.WRONG_ID: 1}
    async with MllpReceiver(ReceiverBehaviour(every=every)) as receiver, line(receiver) as opened:
        assert await exchange(opened, message("C1")) == [("AA", "C1-X")]
        await opened.send(message("C2"))
        assert await opened.receive() == GARBAGE
    assert receiver.faults == {ReceiverFault.WRONG_ID: 1, ReceiverFault.GARBAGE: 1}


def test_a_seed_draws_the_same_messages_again() -> None:
    """About one in ten of a thousand meets the fault: not each tenth, the same ones for a seed, others for another."""

    def hit(seed: int) -> list[int]:
        behaviour = ReceiverBehaviour(every={ReceiverFault.SILENT: 10}, seed=seed)
        return [number for number in range(1, 1001) if behaviour.fault_of(number)]

    assert hit(1) == hit(1) != hit(2)
    assert 50 < len(hit(1)) < 150
    assert any(number % 10 for number in hit(1))


async def test_after_so_many_connections_the_port_is_closed() -> None:
    """The second connection is the last; it goes on while a third one is refused."""
    async with MllpReceiver(ReceiverBehaviour(connections=2)) as receiver:
        async with line(receiver) as first:
            await exchange(first, message("C1"))
        async with line(receiver) as second:
            await exchange(second, message("C2"))
            with pytest.raises(ConnectionError):
                await connect("127.0.0.1", receiver.port, seconds=SECONDS, limit_bytes=1024, tls=None)
            assert await exchange(second, message("C3")) == [("AA", "C3")]
    assert receiver.connections == 2


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        pytest.param(b"\x0b" + message()[:40], "block-cut-off", id="a-connection-that-ends-inside-a-block"),
        pytest.param(b"\x0bMSH|\x0b" + message() + b"\x1c\r", "torn", id="a-second-start-byte"),
        pytest.param(b"noise\x0b" + message() + b"\x1c\r", "stray-bytes", id="bytes-between-blocks"),
        pytest.param(b"\x0b" + message() + b"\x1c", "bare-end", id="an-end-without-CR"),
        pytest.param(b"\x0b\x1c\r", "probe", id="an-empty-block"),
        pytest.param(b"\x0bMSH|" + b"A" * 4096, "oversize", id="more-than-the-limit"),
        pytest.param(b"GET / HTTP/1.1\r\n", "unframed-http", id="another-protocol"),
    ],
)
async def test_what_is_no_message_is_reported(sent: bytes, kind: str) -> None:
    """A fragment is told with its kind and size, and no message is made of it."""
    seen: list[ReceivedMessage | ReceiverEvent] = []
    behaviour = ReceiverBehaviour(block_bytes=1024)
    async with MllpReceiver(behaviour, observe=seen.append) as receiver:
        reader, writer = await asyncio.open_connection("127.0.0.1", receiver.port)
        writer.write(sent)
        writer.write_eof()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(reader.read(), SECONDS)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        await until_ended(receiver)
    assert receiver.events[kind] == 1
    assert receiver.messages.total() == (message() in sent)
    told = [one for one in seen if isinstance(one, ReceiverEvent)]
    assert kind in {one.kind for one in told}
    assert {one.connection for one in told} == {1}


async def test_a_reset_connection_ends_alone() -> None:
    """A sender that resets its connection inside a block is reported; another one is served."""
    async with MllpReceiver() as receiver:
        broken = socket.create_connection(("127.0.0.1", receiver.port))
        broken.sendall(b"\x0bMSH|")
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        broken.close()
        async with line(receiver) as opened:
            assert await exchange(opened, message()) == [("AA", "C1")]
        await until_ended(receiver)
    assert len(receiver.received) == 1
    assert not receiver.failed.done()


async def test_what_has_no_header_is_kept_and_not_answered() -> None:
    """A block without MSH is a message without an answer; the next one is answered."""
    async with MllpReceiver() as receiver, line(receiver) as opened:
        await opened.send(b"PID|1||100001\r")
        assert await exchange(opened, message()) == [("AA", "C1")]
    assert [(one.raw[:3], one.codes) for one in receiver.received] == [(b"PID", ()), (b"MSH", (AckCode.AA,))]


async def test_what_cannot_be_observed_is_not_answered() -> None:
    """A message that the observer fails on has no answer, and the receiver tells why."""

    def full(_: object) -> None:
        raise OSError("disk full")

    async with MllpReceiver(observe=full) as receiver:
        async with line(receiver) as opened:
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await exchange(opened, message())
        with pytest.raises(OSError, match="disk full"):
            await receiver.failed
    assert not receiver.answers


@pytest.mark.parametrize("mutual", [False, True])
async def test_tls(tmp_path: Path, mutual: bool) -> None:
    """A trusted sender is answered over TLS; with mutual TLS one without a certificate is refused, and so reported."""
    own = Certificates(tmp_path)
    async with MllpReceiver(tls=own.of_receiver(mutual=mutual)) as receiver:
        async with line(receiver, own.of_sender(mutual=mutual)) as opened:
            assert await exchange(opened, message()) == [("AA", "C1")]
        if mutual:
            with pytest.raises((OSError, EOFError)):
                async with line(receiver, own.of_sender(mutual=False)) as opened:
                    await exchange(opened, message())
    assert receiver.events == ({"tls-refused-peer-did-not-return-a-certificate": 1} if mutual else {})
    assert len(receiver.received) == 1
