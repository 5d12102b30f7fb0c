"""An MLLP receiver on asyncio that takes everything, counts repeats and answers, or fails, as it was asked to.

It stands in for another system where a sender is tried or tested. Nothing is stored: what it took is handed to
`observe` before it is answered, or kept in `received`.
"""

import asyncio
import dataclasses
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Final, Self
from zlib import crc32

from engine.acknowledge.build import build
from engine.acknowledge.code import AckCode, AckMode, mode_of
from engine.clock import now
from engine.config.channel import AcknowledgementMode
from engine.hl7.finding import ErrorCode, Finding
from engine.hl7.header import Header, read_header
from engine.receive.block import Block, BlockKind, BlockReader, StreamEvent, enclose

BLOCK_BYTES: Final = 16 * 1_048_576
BLOCK_SECONDS: Final = 60.0
# What a refusal names as its reason: 207, which says nothing of the message.
_REFUSAL: Final = Finding(ErrorCode.APPLICATION, "simulated", (), "Refused by a simulated receiver, as it was asked to")
GARBAGE: Final = b"\x00\xff no acknowledgement \xfe"
_READ_BYTES: Final = 65_536
TLS_REFUSED: Final = "tls-refused"
CONNECTION_REFUSED: Final = "connection-refused"


class Repeat(StrEnum):
    """Whether a message came before: one with the same MSH-3, MSH-4 and MSH-10."""

    NEW = "new"
    SAME = "repeat"
    OTHER = "repeat with other bytes"


class ReceiverFault(StrEnum):
    """What a receiver does instead of a proper answer; where several fall on one message, the first of these."""

    DROPPED = "dropped answer"
    SILENT = "no answer"
    GARBAGE = "garbage"
    WRONG_ID = "wrong control id"


@dataclass(frozen=True, slots=True)
class ReceiverBehaviour:
    """How a receiver answers.

    `answer`: what the application says; CA, CE and CR are accept acknowledgements with none of the application after
    them, None is no answer at all. In enhanced mode CA goes first if MSH-15 asks for it, and the application's answer
    after `delay_seconds` if MSH-16 does; elsewhere each answer waits so long. `fail`: each nth message is answered by
    a code of its own; the first pair that fits counts. `every`: each nth message meets a fault. With a `seed` it is
    each message with a chance of one in n, the same ones for the same seed. `connections`: after so many the port is
    closed to new ones; 0 never.
    """

    answer: AckCode | None = AckCode.AA
    mode: AcknowledgementMode = AcknowledgementMode.AUTO
    delay_seconds: float = 0.0
    fail: tuple[tuple[int, AckCode], ...] = ()
    every: Mapping[ReceiverFault, int] = field(default_factory=dict)
    seed: int | None = None
    connections: int = 0
    block_bytes: int = BLOCK_BYTES

    def fault_of(self, number: int) -> ReceiverFault | None:
        """Return the fault of the nth message; None where it is answered properly."""
        return next((one for one in ReceiverFault if self._hits(one, self.every.get(one, 0), number)), None)

    def codes_of(self, number: int, header: Header) -> tuple[AckCode, ...]:
        """Return the acknowledgements of the nth message, in order."""
        code = next((code for every, code in self.fail if self._hits(code, every, number)), self.answer)
        return _codes(code, mode_of(header, self.mode))

    def _hits(self, name: str, every: int, number: int) -> bool:
        chosen = number if self.seed is None else crc32(f"{self.seed} {name} {number}".encode())
        return bool(every) and chosen % every == 0


def _codes(code: AckCode | None, mode: AckMode) -> tuple[AckCode, ...]:
    if code is None:
        return ()
    if not mode.enhanced:
        return (code,)
    by_application = code in {AckCode.AA, AckCode.AE, AckCode.AR}
    accept = AckCode.CA if by_application else code
    at_once = (accept,) if mode.accept.asks(accept) else ()
    return (*at_once, code) if by_application and mode.application.asks(code) else at_once


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One block that came whole: its bytes, and how it is about to be answered.

    `number` counts the messages from 1, `connection` the connections. `header` is None where no MSH begins it: such a
    block is not answered.
    """

    number: int
    at: datetime
    connection: int
    raw: bytes
    header: Header | None
    repeat: Repeat
    codes: tuple[AckCode, ...]
    fault: ReceiverFault | None


@dataclass(frozen=True, slots=True)
class ReceiverEvent:
    """What came that is no message: a fragment, bytes without a frame, a handshake that failed.

    `connection` is 0 where none was made.
    """

    at: datetime
    connection: int
    kind: str
    size_bytes: int = 0


Observe = Callable[[ReceivedMessage | ReceiverEvent], None]


class MllpReceiver:
    """A receiver that listens while its block runs: `async with MllpReceiver() as receiver: ... receiver.port`.

    `observe` is called with each message before it is answered; if it raises, that message is not answered and
    `failed` holds the error. Without it messages are kept in `received`. `tls` is the receiver's own context.
    """

    def __init__(
        self,
        behaviour: ReceiverBehaviour | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        observe: Observe | None = None,
    ) -> None:
        self.behaviour = behaviour or ReceiverBehaviour()
        self.received: list[ReceivedMessage] = []
        self.messages: Counter[Repeat] = Counter()
        self.answers: Counter[AckCode] = Counter()
        self.faults: Counter[ReceiverFault] = Counter()
        self.events: Counter[str] = Counter()
        self.connections = 0
        self.port = port
        self._host = host
        self._tls = tls
        self._observe = observe or self._keep
        self._known: dict[tuple[bytes, ...], set[bytes]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        """Listen; OSError where the port cannot be had."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._tls is not None:
            self._tls.sslobject_class = _observed(self._tls_refused)
        self._server = await asyncio.start_server(self._connected, self._host, self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the port and every connection."""
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, one: ReceivedMessage | ReceiverEvent) -> None:
        if isinstance(one, ReceivedMessage):
            self.received.append(one)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        most = self.behaviour.connections
        if most and self.connections >= most:
            # It was waiting when the port was closed.
            self._tell(0, CONNECTION_REFUSED)
            writer.transport.abort()
            return
        self.connections += 1
        if self.connections == most:
            self._server.close()
        task = asyncio.get_running_loop().create_task(self._serve(self.connections, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def _serve(self, connection: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cutter = BlockReader(self.behaviour.block_bytes, BLOCK_SECONDS)
        try:
            while not cutter.dead:
                for one in await self._next(connection, reader, cutter):
                    if isinstance(one, Block) and one.kind is BlockKind.COMPLETE:
                        if not await self._take(connection, one.raw, writer):
                            return
                    else:
                        self._tell(connection, one.kind, len(one.raw) if isinstance(one, Block) else one.size_bytes)
        except ConnectionError:
            self._tell(connection, "connection-broken")
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _next(
        self, connection: int, reader: asyncio.StreamReader, cutter: BlockReader
    ) -> list[Block | StreamEvent]:
        """Return what the next bytes complete, the end of the stream or the end of patience; maybe nothing."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(cutter.deadline):
                data = await reader.read(_READ_BYTES)
        except TimeoutError:
            return cutter.expire(loop.time())
        except ConnectionError:
            data = b""
        if data:
            return cutter.feed(data, loop.time())
        if cutter.unframed:
            self._tell(connection, f"unframed-{cutter.unframed}")
        return [*cutter.end(loop.time()), *cutter.close()]

    def _tell(self, connection: int, kind: str, size_bytes: int = 0) -> None:
        self.events[str(kind)] += 1
        self._observe(ReceiverEvent(now(), connection, str(kind), size_bytes))

    def _tls_refused(self, reason: str) -> None:
        self._tell(0, f"{TLS_REFUSED}-{reason.lower().replace('_', '-')}")

    async def _take(self, connection: int, raw: bytes, writer: asyncio.StreamWriter) -> bool:
        """Take one message and answer it; return whether the connection goes on."""
        header = read_header(raw)
        repeat = self._repeat_of(raw, header)
        self.messages[repeat] += 1
        number = self.messages.total()
        fault = self.behaviour.fault_of(number) if header else None
        codes = self.behaviour.codes_of(number, header) if header else ()
        message = ReceivedMessage(number, now(), connection, raw, header, repeat, codes, fault)
        self._observe(message)
        if fault:
            self.faults[fault] += 1
        if fault is ReceiverFault.DROPPED:
            return False
        if header and fault is not ReceiverFault.SILENT:
            await self._answer(message, header, writer)
        return True

    def _repeat_of(self, raw: bytes, header: Header | None) -> Repeat:
        digest = sha256(raw).digest()
        control_id = header.control_id if header else b""
        # Without a control id only the bytes say what is a repeat.
        key = (header.field(3), header.field(4), control_id) if header and control_id else (digest,)
        known = self._known.setdefault(key, set())
        repeat = Repeat.NEW if not known else Repeat.SAME if digest in known else Repeat.OTHER
        known.add(digest)
        return repeat

    async def _answer(self, message: ReceivedMessage, header: Header, writer: asyncio.StreamWriter) -> None:
        if not message.codes:
            return
        *at_once, last = message.codes
        for code in at_once:
            self._send(writer, message, header, code)
        loop = asyncio.get_running_loop()
        if at_once and self.behaviour.delay_seconds:
            # The sender may go on after the accept acknowledgement, and so does the reading.
            loop.call_later(self.behaviour.delay_seconds, self._send, writer, message, header, last)
        else:
            await asyncio.sleep(self.behaviour.delay_seconds)
            self._send(writer, message, header, last)
        await writer.drain()

    def _send(self, writer: asyncio.StreamWriter, message: ReceivedMessage, header: Header, code: AckCode) -> None:
        if writer.is_closing():
            return
        if message.fault is ReceiverFault.GARBAGE:
            writer.write(enclose(GARBAGE))
            return
        if message.fault is ReceiverFault.WRONG_ID:
            fields = (*header.fields[:10], header.control_id + b"-X", *header.fields[11:])
            header = dataclasses.replace(header, fields=fields)
        findings = () if code.positive else (_REFUSAL,)
        control_id = f"R{message.number}{code}"
        writer.write(enclose(build(header, code, findings, control_id, now(), "ascii")))
        self.answers[code] += 1


def _observed(refused: Callable[[str], None]) -> type[ssl.SSLObject]:
    """Return the class of TLS connections that say why a handshake failed, which asyncio does not."""

    class ObservedHandshake(ssl.SSLObject):
        """A TLS connection whose failed handshake is counted."""

        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                refused(error.reason or "failed")
                raise

    return ObservedHandshake
