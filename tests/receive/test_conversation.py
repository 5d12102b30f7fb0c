"""Conversations without a socket: what a line that takes nothing, or a slow answer, does to the flow."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from engine.config.listener_settings import Limits
from engine.receive.block import Block, enclose
from engine.receive.conversation import ConnectionSettings, Conversation
from engine.receive.reply import BlockReply, Peer

Eventually = Callable[[Callable[[], object]], Awaitable[None]]


@dataclass
class Stub:
    """A line that remembers what was asked of it; `taking` says whether its socket takes bytes."""

    taking: bool = True
    sent: bytes = b""
    asked: list[str] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)
    told: list[bool] = field(default_factory=list)

    def send(self, data: bytes) -> bool:
        """Take bytes."""
        self.sent += data
        return self.taking

    def pause(self) -> None:
        """Remember."""
        self.asked.append("pause")

    def resume(self) -> None:
        """Remember."""
        self.asked.append("resume")

    def finish(self) -> None:
        """Remember."""
        self.asked.append("finish")

    def abort(self) -> None:
        """Remember."""
        self.asked.append("abort")

    def talk(self, answer: Any = None, *, stall_seconds: float = 30, **limits: Any) -> Conversation:
        """Begin a conversation on this line."""

        async def echo(block: Block, _peer: Peer) -> BlockReply:
            return BlockReply(block.raw, written=self.told.append)

        settings = ConnectionSettings(
            answer or echo,
            lambda word, **_: self.events.update([word]),
            Limits(**limits),
            commit_bytes=False,
            stall_seconds=stall_seconds,
            tasks=set(),
        )
        return Conversation(self, settings, Peer("127.0.0.1", 1))


async def test_a_reply_is_told_once_the_socket_took_it(eventually: Eventually) -> None:
    """While bytes wait in the buffer nothing is told; reading stops past the bound and goes on after the flush."""
    line = Stub(taking=False)
    conversation = line.talk(unread_reply_bytes=1024)
    conversation.received(enclose(b"x" * 2000))
    await eventually(lambda: line.asked == ["pause"])
    assert line.told == []
    conversation.flushed()
    assert line.told == [True]
    assert line.asked == ["pause", "resume"]
    conversation.lost()


async def test_what_waits_in_the_buffer_of_a_lost_line_is_unsent(eventually: Eventually) -> None:
    """A reply that never reached the socket is told to be unsent, and so is one that comes after."""
    line = Stub(taking=False)
    conversation = line.talk()
    conversation.received(enclose(b"A"))
    await eventually(lambda: line.sent)
    conversation.received(enclose(b"B"))
    conversation.lost()
    await eventually(lambda: line.told == [False, False])


async def test_replies_of_one_turn_leave_in_one_write(eventually: Eventually) -> None:
    """What is ready at the same time is sent together."""
    line = Stub()
    writes: list[bytes] = []
    line.send = lambda data: not writes.append(data)  # type: ignore[method-assign, func-returns-value]
    conversation = line.talk()
    conversation.received(enclose(b"A") + enclose(b"B") + enclose(b"C"))
    await eventually(lambda: writes)
    assert writes == [enclose(b"A") + enclose(b"B") + enclose(b"C")]
    conversation.lost()


async def test_progress_keeps_a_full_line_open(eventually: Eventually) -> None:
    """A line on which answers come slowly but steadily is not taken for one that stands still."""

    async def slow(block: Block, _peer: Peer) -> BlockReply:
        await asyncio.sleep(0.3)
        return BlockReply(block.raw)

    line = Stub()
    conversation = line.talk(slow, stall_seconds=1.0, in_flight=1)
    whole = b"".join(enclose(b"%d" % number) for number in range(4))
    conversation.received(whole)
    await eventually(lambda: line.sent == whole)
    assert "abort" not in line.asked
    conversation.lost()


async def test_a_block_under_way_gets_the_time_in_which_nobody_read(eventually: Eventually) -> None:
    """While reading is stopped on our side, the seconds of a block do not run."""
    gate = asyncio.Event()

    async def waiting(block: Block, _peer: Peer) -> BlockReply:
        await gate.wait()
        return BlockReply(block.raw)

    line = Stub()
    conversation = line.talk(waiting, block_seconds=0.5, in_flight=1)
    conversation.received(enclose(b"A") + b"\x0bB")
    before = conversation._reader.deadline
    await asyncio.sleep(0.7)
    gate.set()
    await eventually(lambda: line.sent)
    after = conversation._reader.deadline
    assert before is not None
    assert after is not None
    assert after - before >= 0.69
    conversation.received(b"\x1c\r")
    await eventually(lambda: line.sent == enclose(b"A") + enclose(b"B"))
    assert not line.events
    conversation.lost()


async def test_a_bare_end_is_answered_after_a_second(eventually: Eventually) -> None:
    """A sender that leaves out the last byte gets its answer long before a block's time is over."""
    line = Stub()
    conversation = line.talk(block_seconds=3_600)
    conversation.received(b"\x0bA")
    conversation.received(b"\x1c")
    await eventually(lambda: line.sent == enclose(b"A"))
    assert line.events == {"bare-end": 1}
    assert "finish" not in line.asked
    conversation.lost()


async def test_a_block_with_an_end_byte_within_is_answered_after_a_second(eventually: Eventually) -> None:
    """A sender that frames by two bytes, as UTF-16 does, is answered long before a block's time is over."""
    line = Stub()
    conversation = line.talk(block_seconds=3_600)
    conversation.received(b"\x0bA\x1c\x00\r\x00")
    await eventually(lambda: line.sent == enclose(b"A\x1c\x00\r\x00"))
    assert not line.events
    assert "finish" not in line.asked
    conversation.lost()


async def test_bytes_without_a_frame_are_said_once(monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """Who sends without a start byte is named with what its bytes look like; who sends blocks after all is not."""
    monkeypatch.setattr("engine.receive.conversation.UNFRAMED_SECONDS", 0.02)
    told: list[tuple[str, dict[str, str]]] = []
    line, framed = Stub(), Stub()
    conversation, other = line.talk(), framed.talk()
    conversation._settings = replace(conversation._settings, observe=lambda kind, **about: told.append((kind, about)))
    conversation.received(b"MSH|^~\\&|A\r")
    other.received(b"??" + enclose(b"A") + b"\r\n")
    await eventually(lambda: told)
    conversation.received(b"MSH|^~\\&|A\r")
    assert told == [("unframed", {"address": "127.0.0.1", "first": "hl7"})]
    assert not conversation._timers.names
    await eventually(lambda: not other._timers.names)
    assert framed.events == {"stray-bytes": 1}
    conversation.lost()
    other.lost()


async def test_a_bare_end_of_a_connection_that_was_closed_is_answered(eventually: Eventually) -> None:
    """Behind TLS nothing is half closed: a block that lacks its CR is taken in, and its reply is unsent."""
    line, broken_off = Stub(), Stub()
    conversation, other = line.talk(), broken_off.talk()
    conversation.received(b"\x0bA\x1c")
    other.received(b"\x0bA\x1c")
    conversation.lost(closed=True)
    other.lost()
    await eventually(lambda: line.told == [False])
    assert line.events == {"bare-end": 1}
    assert broken_off.events == {"block-cut-off": 1}
    assert not broken_off.told


async def test_idle_does_not_count_while_an_answer_is_due(eventually: Eventually) -> None:
    """A sender that waits for its answer is not idle."""

    async def slow(block: Block, _peer: Peer) -> BlockReply:
        await asyncio.sleep(0.15)
        return BlockReply(block.raw)

    line = Stub()
    conversation = line.talk(slow, idle_seconds=0.05)
    conversation.received(enclose(b"A"))
    await eventually(lambda: line.asked[-1:] == ["finish"])
    assert line.sent == enclose(b"A")
    assert line.events == {"idle": 1}
    conversation.lost()


async def test_a_peer_that_does_not_close_is_dropped(monkeypatch: pytest.MonkeyPatch, eventually: Eventually) -> None:
    """After our side is closed the peer has a while to close its own."""
    monkeypatch.setattr("engine.receive.conversation.LINGER_SECONDS", 0.02)
    line = Stub()
    conversation = line.talk()
    conversation.received(enclose(b"A"))
    conversation.drain()
    await eventually(lambda: line.asked[-2:] == ["finish", "abort"])
    assert line.sent == enclose(b"A")
    conversation.lost()


async def test_a_later_reply_that_fails_is_unsent(eventually: Eventually) -> None:
    """When the application acknowledgement cannot be made, the line stays open and the reply is unsent."""
    told: list[bool] = []

    async def failing() -> bytes:
        raise RuntimeError

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"CA", later=failing(), later_written=told.append)

    line = Stub()
    conversation = line.talk(answer)
    conversation.received(enclose(b"A"))
    await eventually(lambda: told == [False])
    assert line.sent == enclose(b"CA")
    assert line.events == {"answer-failed": 1}
    assert "finish" not in line.asked
    conversation.lost()


async def test_a_later_reply_may_say_nothing(eventually: Eventually) -> None:
    """A later reply of None writes nothing."""

    async def nothing() -> None:
        return None

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"CA", later=nothing())

    line = Stub()
    conversation = line.talk(answer)
    conversation.received(enclose(b"A"))
    await eventually(lambda: line.sent)
    await asyncio.sleep(0.01)
    assert line.sent == enclose(b"CA")
    conversation.lost()


async def test_a_half_closed_peer_gets_its_later_reply(eventually: Eventually) -> None:
    """A peer that has closed its side still gets the application acknowledgement, then the line is closed."""
    gate = asyncio.Event()

    async def later() -> bytes:
        await gate.wait()
        return b"AA"

    async def answer(_block: Block, _peer: Peer) -> BlockReply:
        return BlockReply(b"CA", later=later())

    line = Stub()
    conversation = line.talk(answer)
    conversation.received(enclose(b"A"))
    conversation.ended()
    await eventually(lambda: line.sent)
    assert "finish" not in line.asked
    gate.set()
    await eventually(lambda: line.asked[-1:] == ["finish"])
    assert line.sent == enclose(b"CA") + enclose(b"AA")
    conversation.lost()
