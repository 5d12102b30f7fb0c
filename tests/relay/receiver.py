"""A receiver of MLLP that does to each message what a test says; it keeps what came, in order, byte for byte."""

import asyncio
import contextlib
import ssl
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Final

START_BLOCK: Final = b"\x0b"
END_BLOCK: Final = b"\x1c\x0d"
LIMIT_BYTES: Final = 1 << 24
# What a receiver does with a message, step by step: `AA` acknowledges it, `AA:ID` does so under another control id,
# `AA:` under none; `close` and `abort` end the connection, `garbage` is no block, `nonsense` a block without MSA. An
# event is waited for, a number is a pause in seconds. No step at all: silence.
Step = str | float | asyncio.Event
ACCEPT: Final[tuple[Step, ...]] = ("AA",)
SILENCE: Final[tuple[Step, ...]] = ()


@dataclass(frozen=True, slots=True)
class Received:
    """One message as it came, over which connection."""

    connection: int
    raw: bytes

    @property
    def control_id(self) -> str:
        """MSH-10."""
        return self.raw.split(b"\r")[0].split(b"|")[9].decode()


class Receiver:
    """Listens on a port that stays its own; `script` says what it does with messages by their control ids, each once.

    `usual` is done with all others. `unanswered` holds messages that came and were not answered, by connection;
    `most_unanswered` is how many connections had such at a time. `names` are those of connections, as peers.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.tls = tls
        self.received: list[Received] = []
        self.script: defaultdict[str, deque[tuple[Step, ...]]] = defaultdict(deque)
        self.usual: tuple[Step, ...] = ACCEPT
        self.unanswered: dict[int, bytes] = {}
        self.most_unanswered = 0
        self.connections = 0
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._progress = asyncio.Condition()

    async def start(self) -> "Receiver":
        """Listen, at the port of before where there was one."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self.tls, limit=LIMIT_BYTES, reuse_address=True
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def stop(self) -> None:
        """Stop listening and cut all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections."""
        for writer in self._writers:
            writer.transport.abort()

    def on(self, control_id: str, *turns: tuple[Step, ...]) -> None:
        """Say what is done with a message each time it comes, in turn; afterwards what is usual."""
        self.script[control_id].extend(turns)

    async def until(self, count: int, seconds: float = 60.0) -> list[Received]:
        """Wait until so many messages have come and return them; AssertionError with those that did where not."""
        try:
            async with asyncio.timeout(seconds), self._progress:
                await self._progress.wait_for(lambda: len(self.received) >= count)
        except TimeoutError:
            raise AssertionError(f"{len(self.received)} of {count} came: {self.ids()[-20:]}") from None
        return self.received

    def ids(self) -> list[str]:
        """Return the control ids of all that came, in order."""
        return [one.control_id for one in self.received]

    @property
    def raws(self) -> list[bytes]:
        """All that came, in order."""
        return [one.raw for one in self.received]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        connection = self.connections
        try:
            while True:
                block = await reader.readuntil(END_BLOCK)
                assert block.startswith(START_BLOCK), block[:20]
                await self._take(Received(connection, block[1:-2]), writer)
        except (OSError, asyncio.IncompleteReadError):
            """The other end is gone."""
        finally:
            self.unanswered.pop(connection, None)
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _take(self, received: Received, writer: asyncio.StreamWriter) -> None:
        self.unanswered[received.connection] = received.raw
        self.most_unanswered = max(self.most_unanswered, len(self.unanswered))
        self.received.append(received)
        async with self._progress:
            self._progress.notify_all()
        turns = self.script[received.control_id]
        for step in turns.popleft() if turns else self.usual:
            await self._do(step, received, writer)

    async def _do(self, step: Step, received: Received, writer: asyncio.StreamWriter) -> None:
        if isinstance(step, asyncio.Event):
            await step.wait()
            return
        if isinstance(step, float):
            await asyncio.sleep(step)
            return
        match step.partition(":"):
            case ("close", _, _):
                writer.close()
            case ("abort", _, _):
                writer.transport.abort()
            case ("garbage", _, _):
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n" + END_BLOCK)
            case ("nonsense", _, _):
                writer.write(START_BLOCK + b"MSH|^~\\&|R|H|||2026||ACK|1|P|2.5\r" + END_BLOCK)
            case (code, other, control_id):
                self.unanswered.pop(received.connection, None)
                writer.write(ack(code, control_id if other else received.control_id))
        with contextlib.suppress(OSError):
            await writer.drain()


def ack(code: str, control_id: str) -> bytes:
    """Return a block with an acknowledgement."""
    text = f"MSH|^~\\&|RIS|H|||20260301||ACK|R{control_id}|P|2.5\rMSA|{code}|{control_id}\r"
    return START_BLOCK + text.encode() + END_BLOCK


def firsts(received: list[Received]) -> list[bytes]:
    """Return what came, without what had come before."""
    return list(dict.fromkeys(one.raw for one in received))
