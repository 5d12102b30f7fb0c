"""The throttle of a destination: window, breaker and backoff together."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from engine.config.destination import Retry
from engine.deliver.throttling import FAILURES_TO_OPEN, MOST_LOCK_REFUSALS, BreakerState
from engine.deliver.verdict import Failure, HttpAttempt, Verdict, VerdictKind
from engine.http.request import HttpRequest
from engine.pipeline.outbound.throttle import DeliveryThrottle

NOW = datetime(2025, 7, 1, 9, tzinfo=UTC)
LOST = Verdict(VerdictKind.RETRY, "connection-lost", failure=Failure.TRANSIENT)
LOCKED = Verdict(VerdictKind.RETRY, "lock-refused", failure=Failure.TRANSIENT)
TOO_MANY = Verdict(VerdictKind.RETRY, "http-429", failure=Failure.TRANSIENT)
BROKEN = Verdict(VerdictKind.RETRY, "http-500", failure=Failure.AMBIGUOUS)
PUT = HttpAttempt(HttpRequest(1, "PUT", "Patient/1", (), b"", NOW), 200, (), Failure.NONE, 1.0, b"")
GOOD = Verdict(VerdictKind.DELIVERED, "updated", attempts=(PUT,))


class Clock:
    """A monotonic clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return where the clock stands."""
        return self.now


def made(clock: Clock, concurrency: int = 4) -> DeliveryThrottle:
    """Return a throttle whose dice always show one half."""
    return DeliveryThrottle("d", concurrency, Retry(first_seconds=2, max_seconds=60), clock, lambda: 0.5)


def test_failures_open_the_breaker_and_one_probe_closes_it() -> None:
    """After enough failures nothing starts; later one probe does, and its success opens the way for all."""
    clock = Clock()
    throttle = made(clock)
    for entry in range(FAILURES_TO_OPEN):
        throttle.record_result(entry, LOST, clock.now)
    assert throttle.breaker.gate is BreakerState.OPEN
    assert throttle.allowed(0) == 0
    assert throttle.pause_seconds() > 0
    clock.now += 1000
    assert throttle.admit(0)
    assert throttle.allowed(0) == 0  # the probe is on its way
    throttle.record_result(1, GOOD, clock.now)
    assert throttle.allowed(0) >= 1
    assert throttle.pause_seconds() == 0


def test_a_retry_waits_with_jitter_or_as_the_server_says() -> None:
    """Half of the second doubling of two seconds; `Retry-After` where that is longer."""
    throttle = made(Clock())
    assert throttle.retry_at(LOST, 2, NOW) == NOW + timedelta(seconds=2)
    asked = Verdict(VerdictKind.RETRY, "http-429", failure=Failure.TRANSIENT, retry_after_seconds=30)
    assert throttle.retry_at(asked, 1, NOW) == NOW + timedelta(seconds=30)


def test_a_hold_is_not_tried_again_and_is_an_answer() -> None:
    """A permanent refusal neither retries nor counts against the destination."""
    throttle = made(Clock())
    refused = Verdict(VerdictKind.HELD, "http-422", failure=Failure.PERMANENT)
    for _ in range(FAILURES_TO_OPEN * 2):
        assert throttle.retry_at(throttle.record_result(1, refused, 0), 1, NOW) is None
    assert throttle.breaker.gate is BreakerState.CLOSED
    assert throttle.allowed(1) == 3


def test_one_entry_alone_opens_nothing_and_leaves_the_window_as_it_is() -> None:
    """However often it fails, and whatever it asks to wait, others start as before; a second one makes it matter."""
    clock = Clock()
    throttle = made(clock)
    asking = Verdict(VerdictKind.RETRY, "http-503", failure=Failure.TRANSIENT, retry_after_seconds=60)
    for _ in range(FAILURES_TO_OPEN * 4):
        assert throttle.record_result(1, asking, clock.now) is asking
    assert (throttle.breaker.gate, throttle.allowed(0)) == (BreakerState.CLOSED, 4)
    throttle.record_result(2, asking, clock.now)
    assert throttle.breaker.gate is BreakerState.OPEN


def test_no_connection_is_nobodys_fault_and_opens_for_one_entry() -> None:
    """Nothing was sent, so that no entry can be the cause: the only one that waits is enough."""
    throttle = made(Clock())
    refused = Verdict(VerdictKind.RETRY, "connection-refused", failure=Failure.TRANSIENT)
    for _ in range(FAILURES_TO_OPEN):
        throttle.record_result(1, refused, 0)
    assert throttle.breaker.gate is BreakerState.OPEN


def test_a_refusal_for_a_lock_waits_longer_each_time_and_is_an_answer() -> None:
    """It neither opens the breaker nor makes a poison of the entry; only fewer deliveries go at once."""
    clock = Clock()
    throttle = made(clock)
    throttle.record_result(2, GOOD, clock.now)
    waits = []
    for tries in range(1, MOST_LOCK_REFUSALS + 1):
        assert throttle.lock_refusals(1) == tries - 1
        verdict = throttle.record_result(1, LOCKED, clock.now)
        again = throttle.retry_at(verdict, tries, NOW)
        assert again is not None
        waits.append((again - NOW).total_seconds())
        throttle.record_result(2, GOOD, clock.now)
        clock.now += 600
    assert waits == [1.5, 2.5, 4.5, 8.5, 16.5, 32.5]
    assert (throttle.breaker.gate, throttle.down) == (BreakerState.CLOSED, False)
    asked = replace(LOCKED, retry_after_seconds=90)
    assert throttle.record_result(3, asked, clock.now).retry_after_seconds == 90
    for entry in range(FAILURES_TO_OPEN * 2):
        throttle.record_result(entry, LOCKED, clock.now)
    assert (throttle.breaker.gate, throttle.allowed(0)) == (BreakerState.CLOSED, 1)


def test_refusals_for_a_lock_are_counted_until_the_entry_is_done() -> None:
    """Once they were too many, failures of another kind count as ever, and no new patience begins before the end."""
    clock = Clock()
    throttle = made(clock)
    throttle.record_result(1, LOCKED, clock.now)
    throttle.record_result(1, LOST, clock.now)
    assert throttle.lock_refusals(1) == 0
    for _ in range(MOST_LOCK_REFUSALS):
        throttle.record_result(1, LOCKED, clock.now)
    throttle.record_result(1, TOO_MANY, clock.now)
    assert throttle.lock_refusals(1) == MOST_LOCK_REFUSALS
    throttle.record_result(1, GOOD, clock.now)
    assert throttle.lock_refusals(1) == 0


def test_a_poison_is_held() -> None:
    """Eight failures over five minutes while another succeeds; what the destination said last stands as a note."""
    clock = Clock()
    throttle = made(clock)
    throttle.record_result(1, BROKEN, clock.now)
    clock.now += 1
    throttle.record_result(2, GOOD, clock.now)
    for _ in range(7):
        clock.now += 50
        verdict = throttle.record_result(1, BROKEN, clock.now)
    assert (verdict.kind, verdict.reason, verdict.notes) == (VerdictKind.HELD, "server-error", ("http-500",))
    assert throttle.retry_at(verdict, 9, NOW) is None
    assert throttle.down_seconds() == 0


def test_a_probe_that_asks_nothing_is_repeated() -> None:
    """An entry that is held before anything was asked says nothing of the destination."""
    clock = Clock()
    throttle = made(clock)
    for _ in range(FAILURES_TO_OPEN):
        throttle.record_result(3, Verdict(VerdictKind.RETRY, "http-429", failure=Failure.TRANSIENT), clock.now)
    clock.now = throttle.breaker.until
    assert throttle.admit(0)
    throttle.record_result(4, Verdict(VerdictKind.HELD, "stale", unasked=True), clock.now)
    assert (throttle.breaker.gate, throttle.allowed(0)) == (BreakerState.OPEN, 1)


def test_how_long_a_destination_is_down() -> None:
    """From the first failure on, also of one that never said what it can do; an answer ends it."""
    clock = Clock()
    throttle = made(clock)
    throttle.unreachable()
    clock.now += 20
    throttle.record_result(1, BROKEN, clock.now)
    clock.now += 11
    assert throttle.down_seconds() == 31
    throttle.record_result(1, GOOD, clock.now)
    assert throttle.down_seconds() == 0
