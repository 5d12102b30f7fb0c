"""One connection's conversation, without a socket: blocks in, replies out in the order of the requests, timers.

What comes faster than it can be answered waits in the sender: reading stops while too many answers are under way or
too many reply bytes are unread, and a conversation that stays so for `stall_seconds` is closed.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from engine import fault
from engine.config.listener_settings import Limits
from engine.errors import place_of
from engine.receive.block import COMMIT_ACK, COMMIT_NAK, Block, BlockReader, EventKind, StreamEvent, enclose
from engine.receive.outbox import Outbox, ReplyLine
from engine.receive.reply import Answer, BlockReply, Observe, Peer, Written


class Timers:
    """Calls `ring` with a timer's name and the time; `failed` where that raises, and nothing once they were stopped."""

    __slots__ = ("_failed", "_loop", "_ring", "_running", "_stopped")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        ring: Callable[[str, float], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._loop = loop
        self._ring = ring
        self._failed = failed
        self._running: dict[str, asyncio.TimerHandle] = {}
        self._stopped = False

    @property
    def names(self) -> tuple[str, ...]:
        """Those that run."""
        return tuple(self._running)

    def arm(self, name: str, seconds: float) -> None:
        """Start a timer that does not run."""
        if name not in self._running and not self._stopped:
            self._running[name] = self._loop.call_later(seconds, self._over, name)

    def arm_by(self, name: str, moment: float) -> None:
        """Let a timer ring at a moment, or earlier where it is to ring earlier."""
        timer = self._running.get(name)
        if timer is not None and timer.when() > moment:
            timer.cancel()
            del self._running[name]
        self.arm(name, moment - self._loop.time())

    def stop(self) -> None:
        """Stop all of them for good."""
        self._stopped = True
        for timer in self._running.values():
            timer.cancel()
        self._running.clear()

    def _over(self, name: str) -> None:
        del self._running[name]
        try:
            self._ring(name, self._loop.time())
        except Exception as error:  # noqa: BLE001 - the last resort: else nobody hears of it
            self._failed(error)


STALL_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 2.0
# Bytes without a frame that stand so long before a block begins are worth a word: their sender waits for an answer.
UNFRAMED_SECONDS: Final = 5.0
# What is counted where something of ours went wrong, and ended the connection.
FAILED: Final = "connection-failed"


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings that all connections of a listener share."""

    answer: Answer
    observe: Observe
    limits: Limits
    commit_bytes: bool
    stall_seconds: float
    tasks: set[asyncio.Task[None]]


def fault_of(error: Exception) -> dict[str, str]:
    """Return what is said of a fault of ours: its type and the place in the code."""
    return {"error": type(error).__name__, "point": place_of(error)}


class _Turn:
    """A block's place in the order of replies."""

    __slots__ = ("reply",)

    def __init__(self) -> None:
        self.reply: BlockReply | None = None


class Conversation:
    """Answers the blocks of one connection."""

    def __init__(self, line: ReplyLine, settings: ConnectionSettings, peer: Peer) -> None:
        self._line = line
        self._settings = settings
        self._limits = settings.limits
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._outbox = Outbox(line, self._loop, self._moved, self._fail)
        self._reader = BlockReader(settings.limits.block_bytes, settings.limits.block_seconds)
        self._backlog: deque[Block | StreamEvent] = deque()
        self._turns: deque[_Turn] = deque()
        self._awaited = 0
        self._reading = True
        self._held_at = 0.0
        self._silent = True
        self._said = False  # that bytes without a frame came
        self._closing = self._finished = self._muted = self._gone = False
        self._timers = Timers(self._loop, self._ring, self._fail)
        self._active_at = self._loop.time()
        if settings.limits.idle_seconds:
            self._timers.arm("idle", settings.limits.idle_seconds)

    @property
    def silent(self) -> bool:
        """Whether no byte has come in so far."""
        return self._silent

    # -- what the line tells

    def received(self, data: bytes) -> None:
        """Take bytes that came in."""
        if self._closing:
            return
        self._silent = False
        self._active_at = now = self._loop.time()
        self._backlog.extend(self._reader.feed(data, now))
        self._advance()
        deadline = self._reader.deadline
        if deadline is not None:
            self._timers.arm_by("block", deadline)
        elif self._reader.unframed and not self._said:
            self._timers.arm("unframed", UNFRAMED_SECONDS)

    def flushed(self) -> None:
        """Hear that every byte sent so far is in the socket."""
        self._outbox.flushed()

    def ended(self) -> None:
        """Hear that the peer sends nothing more; what is under way is still answered."""
        if not self._closing:
            self._backlog.extend(self._reader.end(self._loop.time()))
            self._advance()
        self._read_no_more()
        self._close_when_done()

    def lost(self, *, closed: bool = False) -> None:
        """Called when the connection is lost; answers under way go on, their replies are reported as unsent.

        `closed`: the peer has closed it, in place of breaking it off, and a block that lacks only its CR is whole.
        """
        self._gone = True
        for item in self._reader.end(self._loop.time()) if closed and not self._closing else ():
            if isinstance(item, Block):
                self._begin(item)
            else:
                self._observe(item)
        self._backlog.clear()
        self._read_no_more()
        self._timers.stop()
        self._outbox.lost()

    # -- what the door asks

    def drain(self) -> None:
        """Start no further answer, finish those under way, then close."""
        self._backlog.clear()
        self._read_no_more()
        self._close_when_done()

    # -- in

    def _advance(self) -> None:
        backlog, turns = self._backlog, self._turns
        while backlog and len(turns) < self._limits.in_flight:
            item = backlog.popleft()
            if isinstance(item, StreamEvent):
                self._observe(item)
            else:
                self._begin(item)
        if self._reader.dead and not backlog:
            self._read_no_more()
            self._close_when_done()
        self._regulate()

    def _begin(self, block: Block) -> None:
        if block.raw in {COMMIT_ACK, COMMIT_NAK}:
            self._settings.observe("commit" if block.raw == COMMIT_ACK else "commit-refused")
            return
        turn = _Turn()
        self._turns.append(turn)
        self._settings.tasks.add(self._loop.create_task(self._serve(block, turn)))

    async def _serve(self, block: Block, turn: _Turn) -> None:
        try:
            fault.point("F01")
            turn.reply = await self._settings.answer(block, self._peer)
        except Exception as error:  # noqa: BLE001 - the last resort: the line must not stay open and silent
            self._settings.observe("answer-failed", **fault_of(error))
            turn.reply = BlockReply(None, close=True, stored=False)
        finally:
            self._forget_task()
        try:
            self._settle()
        except Exception as error:  # noqa: BLE001 - the last resort: no connection is left that nobody serves
            self._fail(error)

    def _forget_task(self) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._settings.tasks.discard(task)

    # -- out

    def _settle(self) -> None:
        turns = self._turns
        while turns and (reply := turns[0].reply) is not None:
            turns.popleft()
            self._put(reply)
        if self._gone:
            return
        if self._backlog:
            self._advance()
        else:
            self._regulate()
        self._close_when_done()

    def _put(self, reply: BlockReply) -> None:
        data = self._wire(reply)
        if self._gone or self._muted:
            if reply.written and reply.now is not None:
                reply.written(False)  # noqa: FBT003 - the callable's name says what
        else:
            self._outbox.post(data, reply.written if reply.now is not None else None)
            if reply.close:
                self._muted = True
                self._backlog.clear()
                self._read_no_more()
        if reply.later is not None:
            self._awaited += 1
            later = asyncio.ensure_future(reply.later)
            self._settings.tasks.add(self._loop.create_task(self._follow(later, reply.later_written)))

    def _wire(self, reply: BlockReply) -> bytes:
        now = reply.now
        content = b"" if now is None else enclose(now) if isinstance(now, bytes) else b"".join(map(enclose, now))
        return enclose(COMMIT_ACK if reply.stored else COMMIT_NAK) + content if self._settings.commit_bytes else content

    async def _follow(self, later: Awaitable[bytes | None], written: Written | None) -> None:
        content: bytes | None = None
        failed = True
        try:
            content = await later
            failed = False
        except Exception as error:  # noqa: BLE001 - the last resort: the entry stays, only its reply is lost
            self._settings.observe("answer-failed", **fault_of(error))
        finally:
            self._forget_task()
            self._awaited -= 1
            if written and (failed or (content is not None and not self._open)):
                written(False)  # noqa: FBT003 - the callable's name says what
        try:
            if content is not None and self._open:
                self._outbox.post(enclose(content), written)
            self._close_when_done()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)

    @property
    def _open(self) -> bool:
        return not (self._gone or self._muted or self._finished)

    # -- flow

    def _moved(self) -> None:
        if not self._outbox.unread_bytes:
            self._active_at = self._loop.time()
        self._regulate()
        self._close_when_done()

    def _regulate(self) -> None:
        """Read only while there is room for what may come."""
        if self._finished or self._gone:
            return
        full = len(self._turns) >= self._limits.in_flight or self._outbox.unread_bytes > self._limits.unread_reply_bytes
        wanted = not (full or self._backlog or self._closing)
        if wanted is self._reading:
            return
        self._reading = wanted
        now = self._loop.time()
        if wanted:
            self._reader.postpone(now - self._held_at)
            deadline = self._reader.deadline
            if deadline is not None:
                self._timers.arm_by("block", deadline)
            self._line.resume()
        else:
            self._held_at = now
            self._line.pause()
            self._timers.arm("stall", self._settings.stall_seconds)

    def _read_no_more(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._silent:
            self._settings.observe(EventKind.PROBE.value)
        for item in self._reader.close():
            if isinstance(item, StreamEvent):
                self._observe(item)
        self._regulate()

    def _observe(self, event: StreamEvent) -> None:
        self._settings.observe(event.kind.value, address=self._peer.address)

    def _close_when_done(self) -> None:
        if not self._closing or self._finished or self._gone:
            return
        owing = self._backlog or ((self._turns or self._awaited) and not self._muted)
        if owing or not self._outbox.empty:
            self._timers.arm("stall", self._settings.stall_seconds)
            return
        self._finished = True
        self._line.resume()
        self._line.finish()
        self._timers.arm("linger", LINGER_SECONDS)

    # -- time

    def _fail(self, error: Exception) -> None:
        """End the connection, as something of ours went wrong that nobody else hears of."""
        self._settings.observe(FAILED, **fault_of(error))
        self._line.abort()

    def _ring(self, name: str, now: float) -> None:
        if name == "block":
            self._block_time(now)
        elif name == "unframed":
            self._unframed_time()
        elif name == "stall":
            self._stall_time(now)
        elif name == "idle":
            self._idle_time(now)
        else:
            self._line.abort()

    def _block_time(self, now: float) -> None:
        deadline = self._reader.deadline
        if deadline is None or self._closing:
            return
        if not self._reading:
            self._timers.arm("block", self._limits.block_seconds)
        elif now < deadline:
            self._timers.arm("block", deadline - now)
        else:
            self._backlog.extend(self._reader.expire(now))
            self._advance()

    def _unframed_time(self) -> None:
        looks_like = self._reader.unframed
        if looks_like is not None and not self._closing:
            self._said = True
            self._settings.observe(EventKind.UNFRAMED.value, address=self._peer.address, first=looks_like.value)

    def _stall_time(self, now: float) -> None:
        if self._finished or (self._reading and not self._closing):
            return
        left = max(self._active_at, self._held_at) + self._settings.stall_seconds - now
        if left > 0:
            self._timers.arm("stall", left)
            return
        self._settings.observe("stalled")
        self._line.abort()

    def _idle_time(self, now: float) -> None:
        if self._closing:
            return
        left = self._active_at + self._limits.idle_seconds - now
        if self._turns or self._backlog or left > 0:
            self._timers.arm("idle", max(left, 0.01) if not self._turns else self._limits.idle_seconds)
            return
        self._settings.observe("idle")
        self._read_no_more()
        self._close_when_done()
