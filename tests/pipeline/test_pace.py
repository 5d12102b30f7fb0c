"""The pace of a destination: window, breaker and backoff together."""

from datetime import UTC, datetime, timedelta

from engine.config.destination import Retry
from engine.deliver.breaker import FAILURES_TO_OPEN, Gate
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.pipeline.pace import Pace

NOW = datetime(2025, 7, 1, 9, tzinfo=UTC)
LOST = Verdict(VerdictKind.RETRY, "connection-lost", failure=Failure.TRANSIENT)
GOOD = Verdict(VerdictKind.DELIVERED, "updated")


class Clock:
    """A monotonic clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return where the clock stands."""
        return self.now


def made(clock: Clock, concurrency: int = 4) -> Pace:
    """Return a pace whose dice always show one half."""
    return Pace("d", concurrency, Retry(first_seconds=2, max_seconds=60), clock, lambda: 0.5)


def test_failures_open_the_breaker_and_one_probe_closes_it() -> None:
    """After enough failures nothing starts; later one probe does, and its success opens the way for all."""
    clock = Clock()
    pace = made(clock)
    for attempt in range(1, FAILURES_TO_OPEN + 1):
        pace.settled(LOST, attempt, NOW)
    assert pace.breaker.gate is Gate.OPEN
    assert pace.allowed(0) == 0
    assert pace.pause_seconds() > 0
    clock.now += 1000
    assert pace.admit(0)
    assert pace.allowed(0) == 0  # the probe is on its way
    pace.settled(GOOD, 1, NOW)
    assert pace.allowed(0) >= 1
    assert pace.pause_seconds() == 0


def test_a_retry_waits_with_jitter_or_as_the_server_says() -> None:
    """Half of the second doubling of two seconds; `Retry-After` where that is longer."""
    pace = made(Clock())
    assert pace.settled(LOST, 2, NOW) == NOW + timedelta(seconds=2)
    asked = Verdict(VerdictKind.RETRY, "http-429", failure=Failure.TRANSIENT, retry_after_seconds=30)
    assert pace.settled(asked, 1, NOW) == NOW + timedelta(seconds=30)


def test_a_hold_is_not_tried_again_and_is_an_answer() -> None:
    """A permanent refusal neither retries nor counts against the destination."""
    pace = made(Clock())
    refused = Verdict(VerdictKind.HELD, "http-422", failure=Failure.PERMANENT)
    for _ in range(FAILURES_TO_OPEN * 2):
        assert pace.settled(refused, 1, NOW) is None
    assert pace.breaker.gate is Gate.CLOSED
    assert pace.allowed(1) == 3
