"""Replies on their way to the socket: gathered for one turn of the loop, sent in one write, then reported."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from engine import fault
from engine.receive.reply import Written


class ReplyLine(Protocol):
    """The socket side of a conversation."""

    def send(self, data: bytes) -> bool:
        """Send bytes; False where some could not be handed to the socket yet: `Conversation.flushed` follows."""

    def pause(self) -> None:
        """Stop reading."""

    def resume(self) -> None:
        """Read again."""

    def finish(self) -> None:
        """Say that nothing more will be sent, and drop what still comes in until the peer has closed."""

    def abort(self) -> None:
        """Drop the connection at once."""


class Outbox:
    """Sends what is posted in a turn of the loop; `moved` is called after each write and each time all is gone.

    `failed` is called where a write raises.
    """

    __slots__ = ("_due", "_failed", "_line", "_loop", "_lost", "_moved", "_parts", "_waiting", "unread_bytes")

    def __init__(
        self,
        line: ReplyLine,
        loop: asyncio.AbstractEventLoop,
        moved: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._line = line
        self._loop = loop
        self._moved = moved
        self._failed = failed
        self._parts: list[bytes] = []
        self._waiting: list[Written] = []
        self._due = False
        self._lost = False
        self.unread_bytes = 0

    @property
    def empty(self) -> bool:
        """Whether everything posted is in the socket."""
        return not self._due and not self.unread_bytes

    def post(self, data: bytes, written: Written | None) -> None:
        """Send bytes at the end of this turn of the loop; `written` hears whether all of them reached the socket."""
        if self._lost:
            if written:
                written(False)  # noqa: FBT003 - the callable's name says what
            return
        if written:
            self._waiting.append(written)
        if data:
            self._parts.append(data)
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)

    def flushed(self) -> None:
        """Hear that the socket has taken everything sent so far."""
        self.unread_bytes = 0
        self._report(reached=True)
        self._moved()

    def lost(self) -> None:
        """Hear that the line is gone, and with it what was not sent."""
        self._lost = True
        self.unread_bytes = 0
        self._parts.clear()
        self._report(reached=False)

    def _report(self, *, reached: bool) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for written in waiting:
                written(reached)

    def _flush(self) -> None:
        self._due = False
        parts, self._parts = self._parts, []
        if self._lost:
            return
        try:
            if fault.armed():
                self._send_by_halves(parts)
            else:
                self._send(b"".join(parts))
        except Exception as error:  # noqa: BLE001 - the last resort: no line is left open that cannot be written to
            self._failed(error)

    def _send(self, data: bytes) -> None:
        self.unread_bytes += len(data)
        if not data or self._line.send(data):
            self.flushed()
        else:
            self._moved()

    def _send_by_halves(self, parts: list[bytes]) -> None:
        """Write each reply in two halves, with the fault points between and after them."""
        later, self._waiting = self._waiting, []
        try:
            for data in parts or [b""]:
                half = len(data) // 2
                self._send(data[:half])
                fault.point("F06")
                self._waiting, later = self._waiting + later, []
                self._send(data[half:])
                fault.point("F07")
        except (fault.InjectedFaultError, OSError):
            self._waiting += later
            self._line.abort()
