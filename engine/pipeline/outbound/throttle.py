"""The throttle of one destination: how many deliveries run at once, when to pause, when to retry."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from engine import telemetry
from engine.config.destination import Retry
from engine.deliver.throttling import (
    MOST_COUNTED,
    MOST_LOCK_REFUSALS,
    Breaker,
    BreakerState,
    FailureAttribution,
    PoisonDetector,
    lock_seconds,
    wait_seconds,
    window,
)
from engine.deliver.verdict import Failure, Verdict, VerdictKind
from engine.deliver.wire.client import CONNECTING
from engine.deliver.wire.failure import LOCK_REFUSED

HELD: Final = "server-error"
# Failures that no entry can be the cause of: nothing was sent, or the server asks everybody to wait.
OF_NO_ENTRY: Final = frozenset({"http-429", *(reason for _, _, reason in CONNECTING)})


class DeliveryThrottle:
    """Circuit breaker, window, poison detection and backoff of a destination, updated by each verdict.

    `least_ahead`: how many deliveries to prefetch at least while it is well, however many are under way at once.
    `monotonic` reads a clock that never jumps; `draw` gives a random number from 0 up to 1.
    """

    def __init__(
        self,
        name: str,
        concurrency: int,
        retry: Retry,
        monotonic: Callable[[], float],
        draw: Callable[[], float],
        least_ahead: int = 0,
    ) -> None:
        self.breaker = Breaker()
        self.poison_detector = PoisonDetector(retry.hold_after_tries, retry.hold_after_seconds)
        self._name = name
        self._window = window(concurrency)
        self._retry = retry
        self._monotonic = monotonic
        self._draw = draw
        self._lock_refusals: dict[int, int] = {}
        self._least_ahead = least_ahead

    def allowed(self, under_way: int) -> int:
        """Return how many more deliveries may start now."""
        if not self.open:
            return max(self._window.limit - under_way, 0)
        return 1 if under_way == 0 and self.breaker.admits(self._monotonic()) else 0

    def ahead(self) -> int:
        """Return how many deliveries to prefetch besides those under way; one while the breaker lets probes only."""
        if not self.open:
            return max(self._window.limit, self._least_ahead)
        return 1 if self.breaker.admits(self._monotonic()) else 0

    def admit(self, under_way: int) -> bool:
        """Let one more delivery start, if it may."""
        if not self.allowed(under_way):
            return False
        self.breaker = self.breaker.admitted(self._monotonic())
        return True

    @property
    def open(self) -> bool:
        """Whether nothing but probes may start."""
        return self.breaker.gate is not BreakerState.CLOSED

    def now(self) -> float:
        """Return the reading of the monotonic clock."""
        return self._monotonic()

    def pause_seconds(self) -> float:
        """Return how long the breaker still keeps the destination closed; 0 where it does not."""
        return max(self.breaker.until - self._monotonic(), 0.0) if self.open else 0.0

    def retry_now(self) -> None:
        """Let the next probe start at once, unless one is on its way."""
        self.breaker = self.breaker.hurried(self._monotonic())

    @property
    def down(self) -> bool:
        """Whether the destination has failed without an answer since."""
        return self.poison_detector.down_since is not None

    def down_seconds(self) -> float:
        """Return for how long the destination has failed without an answer in between; 0 where it is well."""
        since = self.poison_detector.down_since
        return 0.0 if since is None else max(self._monotonic() - since, 0.0)

    def unreachable(self) -> None:
        """Note that the destination did not say what it can do."""
        self.poison_detector.down(self._monotonic())

    def reached(self) -> None:
        """Note that the destination has said what it can do."""
        self.poison_detector.down_since = None

    def record_result(self, entry: int, verdict: Verdict, begun: float) -> Verdict:
        """Update the throttle with the verdict on an entry, and return the verdict.

        An entry that keeps failing while others succeed is held; its last failure becomes a note.
        """
        was = self.open
        if verdict.reason == LOCK_REFUSED:
            verdict = self._refused_for_lock(entry, verdict)
        elif verdict.failure not in {Failure.NONE, Failure.PERMANENT}:
            verdict = self._failed(entry, verdict)
        elif verdict.unasked:
            self.breaker = self.breaker.unasked(self._monotonic())
        else:
            self._answered(entry, verdict, begun)
        if verdict.reason != LOCK_REFUSED and not (
            verdict.kind is VerdictKind.RETRY and self._is_out_of_patience(entry)
        ):
            self._lock_refusals.pop(entry, None)
        if self.open is not was:
            telemetry.BREAKER.labels(self._name).set(self.open)
        return verdict

    def _answered(self, entry: int, verdict: Verdict, begun: float) -> None:
        self.breaker = self.breaker.answered()
        if verdict.wrote:
            self.poison_detector.succeeded(entry, begun, self._monotonic())
        else:
            self.poison_detector.answered(entry)
        took = max((attempt.milliseconds for attempt in verdict.attempts), default=0.0)
        if took:
            self._window = self._window.answered(took)

    def _failed(self, entry: int, verdict: Verdict) -> Verdict:
        now = self._monotonic()
        own = verdict.failure is not Failure.DESTINATION and verdict.reason not in OF_NO_ENTRY
        attribution = self.poison_detector.failed(entry, now) if own else FailureAttribution.UNKNOWN
        if not own:
            self.poison_detector.down(now)
        if attribution is not FailureAttribution.UNKNOWN:
            self.breaker = self.breaker.unasked(now)
            return verdict if attribution is FailureAttribution.ENTRY else self._held(verdict)
        alone = own and self.breaker.failing <= {entry}
        self.breaker = self.breaker.failed(
            verdict.failure, now, verdict.retry_after_seconds, entry=entry if own else None
        )
        self._window = self._window if alone else self._window.failed()
        return verdict

    def lock_refusals(self, entry: int) -> int:
        """Return how often in a row an entry was refused for a lock; once it was too often, until it is done."""
        return self._lock_refusals.get(entry, 0)

    def _is_out_of_patience(self, entry: int) -> bool:
        return self.lock_refusals(entry) >= MOST_LOCK_REFUSALS

    def _refused_for_lock(self, entry: int, verdict: Verdict) -> Verdict:
        """Take a refusal for an answer: it says nothing bad of the destination, but that fewer at once would do."""
        self.breaker = self.breaker.answered()
        self.poison_detector.answered(entry)
        self._window = self._window.failed()
        refusals = self._lock_refusals.pop(entry, 0) + 1
        if len(self._lock_refusals) >= MOST_COUNTED:
            self._lock_refusals.pop(next(iter(self._lock_refusals)))
        self._lock_refusals[entry] = refusals
        wait = max(lock_seconds(refusals, self._draw()), verdict.retry_after_seconds)
        return replace(verdict, retry_after_seconds=wait)

    def _held(self, verdict: Verdict) -> Verdict:
        return replace(verdict, kind=VerdictKind.HELD, reason=HELD).noting(verdict.reason)

    def retry_at(self, verdict: Verdict, attempt: int, now: datetime) -> datetime | None:
        """Return when to try a delivery again after an attempt failed; None where it is not tried again by itself."""
        if verdict.kind is not VerdictKind.RETRY:
            return None
        backoff = 0.0 if verdict.reason == LOCK_REFUSED else self.backoff_seconds(attempt)
        return now + timedelta(seconds=max(backoff, verdict.retry_after_seconds))

    def backoff_seconds(self, attempts: int) -> float:
        """Return how long to wait after `attempts` failed, with full jitter."""
        return wait_seconds(attempts, self._retry.first_seconds, self._retry.max_seconds, self._draw())
