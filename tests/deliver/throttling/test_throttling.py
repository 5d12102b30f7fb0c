"""Backoff, Retry-After, breaker and window: pure values, with the clock as an argument."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.deliver.throttling import (
    FAILURES_TO_OPEN,
    MAX_RETRY_AFTER_SECONDS,
    OPEN_SECONDS,
    Breaker,
    BreakerState,
    retry_after_seconds,
    wait_seconds,
    window,
)
from engine.deliver.verdict import Failure

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@given(st.integers(1, 10_000), st.floats(0, 0.999))
def test_wait_stays_in_bounds(attempts, draw):
    """A wait is never negative and never longer than the bound, however many attempts there were."""
    assert 0 <= wait_seconds(attempts, 1, 60, draw) <= 60


def test_wait_doubles():
    """The ceiling doubles with each failed attempt."""
    assert [wait_seconds(attempts, 1, 60, 1.0) for attempts in (1, 2, 3, 7)] == [1, 2, 4, 60]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        ("999999999999", MAX_RETRY_AFTER_SECONDS),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", MAX_RETRY_AFTER_SECONDS),
        ("-5", 0),
        ("soon", 0),
        ("", 0),
    ],
)
def test_retry_after(header, seconds):
    """Seconds and dates are honoured up to five minutes; what cannot be read is none."""
    assert retry_after_seconds(header, NOW) == seconds


@given(st.text(max_size=40))
def test_retry_after_takes_anything(header):
    """No header raises, and none goes beyond the bound."""
    assert 0 <= retry_after_seconds(header, NOW) <= MAX_RETRY_AFTER_SECONDS


def test_whoever_asks_gets_the_next_probe_at_once():
    """An open breaker lets it through now; a closed one, and one whose probe is on its way, stay as they are."""
    breaker = Breaker().failed(Failure.DESTINATION, 100)
    assert not breaker.admits(101)
    assert breaker.hurried(101).admits(101)
    assert breaker.hurried(101).gate is BreakerState.OPEN
    assert Breaker().hurried(101) == Breaker()
    probing = breaker.admitted(breaker.until)
    assert probing.hurried(breaker.until) == probing


def test_breaker_opens_after_failures_in_a_row():
    """Some failures in a row open it; then one probe at a time, and an answer closes it."""
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN):
        assert breaker.admits(0)
        breaker = breaker.failed(Failure.TRANSIENT, 0)
    assert breaker.gate is BreakerState.OPEN
    assert not breaker.admits(1)
    assert breaker.admits(breaker.until)
    probing = breaker.admitted(breaker.until)
    assert (probing.gate, probing.admits(breaker.until + 1)) == (BreakerState.HALF_OPEN, False)
    assert probing.answered() == Breaker()
    again = probing.failed(Failure.TRANSIENT, breaker.until)
    assert (again.gate, again.until > breaker.until) == (BreakerState.OPEN, True)


def test_what_fails_while_it_is_open_does_not_lengthen_the_pause():
    """Sixteen deliveries that fail together open it once; only what a server asks for makes it wait longer."""
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN + 11):
        breaker = breaker.failed(Failure.TRANSIENT, 0)
    assert breaker.until == OPEN_SECONDS
    assert breaker.failed(Failure.TRANSIENT, 0, retry_after_seconds=30).until == 30


def test_fault_of_the_destination_opens_at_once():
    """A refused token pauses everything; a permanent refusal is an answer and pauses nothing."""
    assert Breaker().failed(Failure.DESTINATION, 0).gate is BreakerState.OPEN
    assert Breaker().failed(Failure.PERMANENT, 0) == Breaker()


def test_retry_after_slows_the_whole_destination():
    """What a 429 asks for holds for all deliveries to that server."""
    breaker = Breaker().failed(Failure.TRANSIENT, 10, retry_after_seconds=30)
    assert not breaker.admits(39)
    assert breaker.admits(40)


def test_window_shrinks_when_slow_and_opens_again():
    """Slow answers and failures narrow the window; quick answers widen it up to its bound."""
    open_window = window(16).answered(20)
    assert open_window.limit == 16
    slow = open_window.answered(30_000)
    assert slow.limit < 16
    for _ in range(20):
        slow = slow.failed()
    assert slow.limit == 1
    for _ in range(400):
        slow = slow.answered(20)
    assert slow.limit == 16
