"""The pace of one destination: how many deliveries at once, when to pause, when to try again."""

from collections.abc import Callable
from datetime import datetime, timedelta

from engine import telemetry
from engine.config.destination import Retry
from engine.deliver.backoff import wait_seconds
from engine.deliver.breaker import Breaker, Gate
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.deliver.window import window


class Pace:
    """Breaker, window and backoff of a destination, moved on by each verdict.

    `monotonic` reads a clock that never jumps; `draw` gives a random number from 0 up to 1.
    """

    def __init__(
        self,
        name: str,
        concurrency: int,
        retry: Retry,
        monotonic: Callable[[], float],
        draw: Callable[[], float],
    ) -> None:
        self.breaker = Breaker()
        self._name = name
        self._window = window(concurrency)
        self._retry = retry
        self._monotonic = monotonic
        self._draw = draw

    def allowed(self, under_way: int) -> int:
        """Return how many more deliveries may start now."""
        if self.breaker.gate is Gate.CLOSED:
            return max(self._window.limit - under_way, 0)
        return 1 if under_way == 0 and self.breaker.admits(self._monotonic()) else 0

    def ahead(self) -> int:
        """Return how many deliveries to have at hand beside those under way; one while the breaker lets probes only."""
        if self.breaker.gate is Gate.CLOSED:
            return self._window.limit
        return 1 if self.breaker.admits(self._monotonic()) else 0

    def admit(self, under_way: int) -> bool:
        """Let one more delivery start, if it may."""
        if not self.allowed(under_way):
            return False
        self.breaker = self.breaker.admitted(self._monotonic())
        return True

    def pause_seconds(self) -> float:
        """Return how long the breaker still keeps the destination closed; 0 where it does not."""
        return 0.0 if self.breaker.gate is Gate.CLOSED else max(self.breaker.until - self._monotonic(), 0.05)

    def settled(self, verdict: Verdict, attempt: int, now: datetime) -> datetime | None:
        """Move on by a verdict; return when to try the delivery again, None where it is not tried again by itself."""
        was = self.breaker.gate
        if verdict.failure in {Failure.NONE, Failure.PERMANENT}:
            self.breaker = self.breaker.answered()
            took = max((attempt.milliseconds for attempt in verdict.attempts), default=0.0)
            if took:
                self._window = self._window.answered(took)
        else:
            self.breaker = self.breaker.failed(verdict.failure, self._monotonic(), verdict.retry_after_seconds)
            self._window = self._window.failed()
        if self.breaker.gate is not was:
            telemetry.BREAKER.labels(self._name).set(self.breaker.gate is not Gate.CLOSED)
        if verdict.kind is not VerdictKind.RETRY:
            return None
        return now + timedelta(seconds=max(self.backoff_seconds(attempt), verdict.retry_after_seconds))

    def backoff_seconds(self, attempts: int) -> float:
        """Return how long to wait after so many failed attempts, with full jitter."""
        return wait_seconds(attempts, self._retry.first_seconds, self._retry.max_seconds, self._draw())
