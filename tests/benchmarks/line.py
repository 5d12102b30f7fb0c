"""An MLLP connection that sends one message after the other, and how long the answers took."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

START_BLOCK: Final = b"\x0b"
END_BLOCK: Final = b"\x1c\x0d"


@dataclass(frozen=True, slots=True)
class Answered:
    """A run of messages: wall seconds until the last answer, and each answer's milliseconds, sorted."""

    seconds: float
    milliseconds: Sequence[float]

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which a share of the answers came."""
        return self.milliseconds[min(int(len(self.milliseconds) * share), len(self.milliseconds) - 1)]


class Line(asyncio.Protocol):
    """One MLLP connection that sends the next message when the answer to the last has come.

    `taken` is told the milliseconds of each answer. `done` fails with a RuntimeError where a message is refused or the
    engine closes the connection.
    """

    def __init__(self, messages: Iterator[bytes], taken: Callable[[float], None]) -> None:
        self._messages = messages
        self._taken = taken
        self._sent = 0.0
        self._rest = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first message."""
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        """Note how long the answer took and send the next message."""
        self._rest += data
        if not self._rest.endswith(END_BLOCK):
            return
        self._taken((time.perf_counter() - self._sent) * 1000)
        if b"\rMSA|AA|" not in self._rest and b"\rMSA|CA|" not in self._rest:
            self.done.set_exception(RuntimeError(self._rest.decode()))
            return
        self._rest = b""
        self._next()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Say that no more answers come."""
        if not self.done.done():
            self.done.set_exception(RuntimeError("the engine closed the line"))

    def _next(self) -> None:
        message = next(self._messages, None)
        if message is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(START_BLOCK + message + END_BLOCK)
