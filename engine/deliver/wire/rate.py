"""Requests a second: each gets its turn, in order, out of a token bucket that a destination's requests share."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from engine.config.http_client import Rate
from engine.deliver.throttling import TokenBucket
from engine.deliver.verdict import Failure
from engine.deliver.wire.failure import error_of

CLOSED: Final = "not-connected"


class RateLimiter:
    """Gives turns by a rate. `ticks` is a monotonic clock of the running loop's pace, in seconds."""

    def __init__(self, rate: Rate, ticks: Callable[[], float]) -> None:
        self._bucket = TokenBucket(rate.requests_per_second, rate.burst)
        self._ticks = ticks
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def turn(self) -> None:
        """Wait for a turn; TransientDeliveryError where the destination is closed meanwhile: nothing was sent."""
        if self._closed:
            raise error_of(Failure.TRANSIENT, CLOSED, 0, (CLOSED,))
        if not self._waiting and self._bucket.take(self._ticks()):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if self._timer is None:
            self._set_timer()
        await turn

    def close(self) -> None:
        """End the wait of all who wait."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for turn in self._waiting:
            if not turn.done():
                turn.set_exception(error_of(Failure.TRANSIENT, CLOSED, 0, (CLOSED,)))
        self._waiting.clear()

    def _set_timer(self) -> None:
        seconds = self._bucket.seconds_to_next(self._ticks())
        self._timer = asyncio.get_running_loop().call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        """Give the turns that are due to those who wait longest; who waits no more takes none."""
        self._timer = None
        while self._waiting:
            if self._waiting[0].done():
                self._waiting.popleft()
            elif self._bucket.take(self._ticks()):
                self._waiting.popleft().set_result(None)
            else:
                self._set_timer()
                return
