"""The sender's side of an MLLP line: messages out byte for byte, one at a time, each with what was answered."""

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from engine.errors import UnreachableError
from engine.mllp.acknowledgement import POSITIVE, Ack, part, printable, read_acks
from engine.mllp.client import MllpConnection, connect
from engine.ops.sender.feed import deal, fields


@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """What came back for one block: one acknowledgement, two in enhanced mode, one a message for a batch.

    `failure` says why an answer is missing; `reply` holds the blocks that came, one after another.
    """

    position: int
    control_id: str
    event: str
    acks: tuple[Ack, ...] = ()
    failure: str = ""
    reply: bytes = b""
    milliseconds: float = 0.0

    @property
    def positive(self) -> bool:
        """Whether the message was taken: all that was to be answered was answered AA or CA."""
        return not self.failure and all(ack.code in POSITIVE for ack in self.acks)

    @property
    def code(self) -> str:
        """The first code that is not positive, else the last one; empty where nothing came."""
        refused = [ack.code for ack in self.acks if ack.code not in POSITIVE]
        return (refused or [ack.code for ack in self.acks[-1:]] or [""])[0]

    @property
    def errors(self) -> tuple[tuple[str, str], ...]:
        """Code and text of every error answered."""
        return tuple(error for ack in self.acks for error in ack.errors)


_REPLY_LIMIT_BYTES: Final = 16 * 1_048_576
_GRACE_SECONDS: Final = 0.3
_CLOSING_SECONDS: Final = 0.005  # an engine that refuses a block may close the line right after its answer
_AHEAD: Final = 64
# What a TLS server answers to what is no TLS: an alert, or a part of a handshake (RFC 8446, section 5.1).
_TLS_RECORDS: Final = (b"\x15", b"\x16")
_NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
CLOSED: Final = "the connection was closed without an answer"
SPEAKS_TLS: Final = "the other end speaks TLS"
MAY_BE_FULL: Final = (
    "the other end may be full, of this address (connections_per_address) or altogether (connections), or may not let "
    "this address in (allow): its log, and `refused-full` of `adt_mllp_events_total`, tell"
)
_NEVER: Final = frozenset({b"NE", b""})


async def send_messages(
    host: str,
    port: int,
    messages: Sequence[bytes],
    *,
    connections: int = 1,
    rate: float = 0.0,
    timeout_seconds: float = 30.0,
    tls: ssl.SSLContext | None = None,
    on_answer: Callable[[BlockAnswer], None] | None = None,
) -> list[BlockAnswer]:
    """Send messages and return their answers in the same order.

    Each connection waits for an answer before it sends its next message. One connection keeps the whole order; with
    several, each patient's messages stay on one of them, in order. `rate` bounds messages a second over all (0: no
    bound). `on_answer` is called with each answer as it comes. UnreachableError if nobody listens at the start; later
    failures stand in the answers.
    """
    pace = _Pace(rate)
    answers: dict[int, BlockAnswer] = {}

    async def work(hand: Sequence[int], line: _Line) -> None:
        try:
            for position in hand:
                await pace.wait()
                answers[position] = await line.exchange(position, messages[position])
                if on_answer:
                    on_answer(answers[position])
        finally:
            await line.close()

    hands = [hand for hand in deal(messages, connections) if hand]
    lines = await _opened([_Line(host, port, timeout_seconds, tls) for _ in hands])
    await asyncio.gather(*(work(hand, line) for hand, line in zip(hands, lines, strict=True)))
    return [answers[position] for position in range(len(messages))]


async def send_stream(
    host: str,
    port: int,
    feed: Iterable[tuple[int, bytes]],
    on_answer: Callable[[BlockAnswer], None],
    *,
    connections: int = 1,
    rate: float = 0.0,
    timeout_seconds: float = 30.0,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Send messages as they are made, however many; `on_answer` is called with each answer as it comes.

    The number of each message is its patient's: those of one number stay on one connection, in order. Memory holds
    a few messages a connection. UnreachableError if nobody listens at the start; later failures stand in the answers.
    """
    pace = _Pace(rate)
    lines = await _opened([_Line(host, port, timeout_seconds, tls) for _ in range(connections)])
    queues: list[asyncio.Queue[tuple[int, bytes] | None]] = [asyncio.Queue(_AHEAD) for _ in lines]

    async def work(queue: asyncio.Queue[tuple[int, bytes] | None], line: _Line) -> None:
        try:
            while (waiting := await queue.get()) is not None:
                on_answer(await line.exchange(*waiting))
        finally:
            await line.close()

    async def hand_out() -> None:
        for position, (whose, message) in enumerate(feed):
            await pace.wait()
            await queues[whose % connections].put((position, message))
        for queue in queues:
            await queue.put(None)

    async with asyncio.TaskGroup() as group:
        for queue, line in zip(queues, lines, strict=True):
            group.create_task(work(queue, line))
        group.create_task(hand_out())


async def _opened(lines: "list[_Line]") -> "list[_Line]":
    """Open every line, or close them all again and raise UnreachableError."""
    try:
        await asyncio.gather(*(line.open() for line in lines))
    except UnreachableError:
        await asyncio.gather(*(line.close() for line in lines))
        raise
    return lines


class _Pace:
    """Spaces the messages of all connections evenly."""

    def __init__(self, rate: float) -> None:
        self._gap = 1 / rate if rate > 0 else 0.0
        self._next = 0.0

    async def wait(self) -> None:
        if not self._gap:
            return
        now = time.monotonic()
        self._next = max(self._next + self._gap, now)
        await asyncio.sleep(self._next - now)


class _Line:
    """One connection, opened again when the other end closed it."""

    def __init__(self, host: str, port: int, timeout_seconds: float, tls: ssl.SSLContext | None) -> None:
        self._host, self._port, self._timeout, self._tls = host, port, timeout_seconds, tls
        self._connection: MllpConnection | None = None
        self._answered = False

    async def open(self) -> MllpConnection:
        where = f"{self._host}:{self._port}"
        try:
            self._connection = await connect(
                self._host, self._port, seconds=self._timeout, limit_bytes=_REPLY_LIMIT_BYTES, tls=self._tls
            )
        except ssl.SSLError as error:
            if error.reason in _NO_TLS:
                raise UnreachableError(f"{where} does not speak TLS: leave out --tls-ca") from error
            raise UnreachableError(f"{where} could not be verified ({error.reason}); see --tls-ca") from error
        except ConnectionResetError as error:
            raise UnreachableError(f"{where}: {CLOSED}; {MAY_BE_FULL}") from error
        except TimeoutError as error:
            raise UnreachableError(f"{where} does not answer within {self._timeout:g} seconds") from error
        except OSError as error:
            raise UnreachableError(
                f"nothing is listening at {where} ({_reason(error)}); start `adt-engine run`, or name it with --to"
            ) from error
        return self._connection

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def exchange(self, position: int, message: bytes) -> BlockAnswer:
        header = next(iter(fields(message, b"MSH")), ())
        event = b"^".join(part(header, 9, index) for index in (0, 1)).strip(b"^")
        started = time.perf_counter()
        replies: list[bytes] = []
        failure = await self._converse(message, header, replies)
        return BlockAnswer(
            position,
            printable(part(header, 10)),
            printable(event),
            tuple(ack for reply in replies for ack in read_acks(reply)),
            failure,
            b"".join(replies),
            (time.perf_counter() - started) * 1000,
        )

    async def _converse(self, message: bytes, header: tuple[bytes, ...], replies: list[bytes]) -> str:
        try:
            connection = self._connection
            if connection is None or connection.closed:
                await self.close()
                connection = await self.open()
            await connection.send(message)
            await self._replies(connection, message, header, replies)
        except UnreachableError as error:
            return str(error)
        except TimeoutError:
            await self.close()
            return f"no answer within {self._timeout:g} seconds"
        except (OSError, asyncio.IncompleteReadError) as error:
            await self.close()
            return self._unanswered(error)
        except ValueError:
            await self.close()
            return "the answer is no MLLP block"
        return ""

    def _unanswered(self, error: Exception) -> str:
        """Say what a line that was closed without an answer may mean, by what had come before."""
        begun = error.partial if isinstance(error, asyncio.IncompleteReadError) else b""
        if self._tls is None and begun[:1] in _TLS_RECORDS:
            return f"{SPEAKS_TLS}: name its authority with --tls-ca"
        if self._answered:
            return CLOSED
        return f"{CLOSED}; {MAY_BE_FULL}" if self._tls else f"{CLOSED}; {MAY_BE_FULL}, or it speaks TLS (--tls-ca)"

    async def _replies(
        self, connection: MllpConnection, message: bytes, header: tuple[bytes, ...], replies: list[bytes]
    ) -> None:
        accept, application = part(header, 15), part(header, 16)
        silent = accept in _NEVER and application in _NEVER and bool(accept or application)
        sure = not silent and (accept in {b"AL", b""} or application == b"AL")
        asked = {part(head, 10) for head in fields(message, b"MSH")} | {b""}
        first = await self._read(connection, asked, sure=sure)
        replies += [first] if first else []
        codes = [ack.code for ack in read_acks(first)]
        if codes == ["CA"] and application not in _NEVER:
            second = await self._read(connection, asked, sure=application == b"AL")
            replies += [second] if second else []
        elif not POSITIVE.issuperset(codes):
            await asyncio.sleep(_CLOSING_SECONDS)

    async def _read(self, connection: MllpConnection, asked: set[bytes], *, sure: bool) -> bytes:
        try:
            async with asyncio.timeout(self._timeout if sure else min(_GRACE_SECONDS, self._timeout)):
                while True:
                    reply = await connection.receive()
                    self._answered = True
                    if any(part(msa, 2) in asked for msa in fields(reply, b"MSA")):
                        return reply
        except TimeoutError:
            if sure:
                raise
            return b""


def _reason(error: OSError) -> str:
    return "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or type(error).__name__
