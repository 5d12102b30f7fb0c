"""The sending side: MLLP connections that send, wait, and send again what was not answered; the log C is theirs."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.flow.feed import FeedMessage

START_BLOCK: Final = b"\x0b"
END_BLOCK: Final = b"\x1c\x0d"
REPLY_SECONDS: Final = 60.0
LIMIT_BYTES: Final = 1 << 22


@dataclass(slots=True)
class Sending:
    """One line of the log C: a message put on the wire, and what came back; `code` is empty where nothing did."""

    message: FeedMessage
    connection: int
    sent_ns: int
    heard_ns: int = 0
    code: str = ""
    reply: bytes = b""


class NoRoomError(OSError):
    """The message was not stored (table 0357, code 207): it is to be sent again."""


class Sender:
    """Sends a feed over several connections; the messages of one family stay on one of them, in order.

    `address` waits until the engine listens and says where. A connection that breaks is opened again and begins with
    the message that was not answered, or not stored, as interface senders do.
    """

    def __init__(
        self, feed: Sequence[FeedMessage], connections: int, address: Callable[[], Awaitable[tuple[str, int]]]
    ) -> None:
        self.log: list[Sending] = []
        self.answered = 0
        self._address = address
        self._queues: list[list[FeedMessage]] = [[] for _ in range(connections)]
        self._progress = asyncio.Condition()
        for message in feed:
            self._queues[message.family % connections].append(message)

    async def run(self) -> None:
        """Send everything until each message has been answered."""
        async with asyncio.TaskGroup() as group:
            for connection, queue in enumerate(self._queues):
                group.create_task(self._work(connection, queue))

    async def answers(self, count: int) -> None:
        """Wait until so many messages have been answered."""
        async with self._progress:
            await self._progress.wait_for(lambda: self.answered >= count)

    async def _work(self, connection: int, queue: Sequence[FeedMessage]) -> None:
        waiting = iter(queue)
        message = next(waiting, None)
        while message is not None:
            host, port = await self._address()
            try:
                reader, writer = await asyncio.open_connection(host, port, limit=LIMIT_BYTES)
            except OSError:
                continue
            try:
                while message is not None:
                    await self._exchange(connection, message, reader, writer)
                    message = next(waiting, None)
            except (OSError, asyncio.IncompleteReadError):
                await asyncio.sleep(0)
            finally:
                await _close(writer)

    async def _exchange(
        self, connection: int, message: FeedMessage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        line = Sending(message, connection, time.monotonic_ns())
        self.log.append(line)
        writer.write(START_BLOCK + message.raw + END_BLOCK)
        try:
            async with asyncio.timeout(REPLY_SECONDS):
                block = await reader.readuntil(END_BLOCK)
        except TimeoutError:
            raise AssertionError(f"the line is open and {message.control_id} is not answered") from None
        line.reply = block.removeprefix(START_BLOCK).removesuffix(END_BLOCK)
        line.heard_ns = time.monotonic_ns()
        line.code = code_of(line.reply, message.control_id)
        if b"|207^" in line.reply:
            raise NoRoomError
        async with self._progress:
            self.answered += 1
            self._progress.notify_all()


def code_of(reply: bytes, control_id: str) -> str:
    """Return MSA-1 of an acknowledgement; AssertionError where it does not answer the message of `control_id`."""
    msa = next(line.split(b"|") for line in reply.split(b"\r") if line.startswith(b"MSA|"))
    assert msa[2] == control_id.encode(), f"an answer to {msa[2]!r} came for {control_id}"
    return msa[1].decode()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await writer.wait_closed()
    except OSError:
        return
