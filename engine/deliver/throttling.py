"""Throttling of a destination: backoff, circuit breaker, window of deliveries, poison detection; pure values.

closed --failures in a row of several entries, or one of the whole destination--> open
open --time--> half-open --one probe, of the entry tried least--> closed | open

unknown --another delivery, begun after its failure, succeeds--> of the entry --so often, for so long--> proven

An entry that fails while nobody succeeds proves nothing: it may be an outage. So its count begins anew with each
failure until a write of another entry, begun after it, has succeeded, and again when an entry without suspicion fails
later than the last success. Clocks are monotonic, in seconds; what is known lasts as long as the process.
"""

import math
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from engine.deliver.verdict import Failure

MAX_RETRY_AFTER_SECONDS: Final = 300.0
_SECONDS: Final = re.compile(r"\d{1,12}")
_MOST_DOUBLINGS: Final = 30


def wait_seconds(attempts: int, first_seconds: float, max_seconds: float, draw: float) -> float:
    """Return a wait between nothing and `first * 2 ** (attempts - 1)`, at most `max_seconds`.

    `attempts` counts the failed ones, from 1; `draw` is a random number from 0 up to 1.
    """
    ceiling = first_seconds * math.ldexp(1.0, min(max(attempts, 1) - 1, _MOST_DOUBLINGS))
    return min(ceiling, max_seconds) * draw


def retry_after_seconds(header: str, now: datetime) -> float:
    """Return what a `Retry-After` header asks for (RFC 9110, 10.2.3), at most five minutes.

    Seconds or an HTTP date; 0 where the header is absent, past or cannot be read.
    """
    text = header.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER_SECONDS)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return 0.0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), MAX_RETRY_AFTER_SECONDS)


# How often in a row an entry that a server refuses for a lock is sent again as it is, and how long it waits each time.
MOST_LOCK_REFUSALS: Final = 6
_MOST_LOCK_SECONDS: Final = 32.0


def lock_seconds(refusals: int, draw: float) -> float:
    """Return the wait after so many refusals for a lock, from 1: 1, 2, 4 s and so on, up to 32, and a part of one more.

    Never next to nothing, as a backoff with full jitter may be: what comes again at once meets the lock again.
    """
    return min(2.0 ** (max(refusals, 1) - 1), _MOST_LOCK_SECONDS) + draw


class TokenBucket:
    """At most `burst + rate * t` takings in any `t` seconds. Times are readings of a monotonic clock."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = self._burst
        self._filled_at = -math.inf

    def take(self, now: float) -> bool:
        """Take a token; False where there is none yet."""
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def seconds_to_next(self, now: float) -> float:
        """Return how long it takes until there is a token; 0 where there is one."""
        self._fill(now)
        return max(1.0 - self._tokens, 0.0) / self._rate

    def _fill(self, now: float) -> None:
        if now > self._filled_at:
            grown = (now - self._filled_at) * self._rate
            self._tokens, self._filled_at = min(self._burst, self._tokens + grown), now


FAILURES_TO_OPEN: Final = 5
OPEN_SECONDS: Final = 5.0
MOST_OPEN_SECONDS: Final = 60.0
PROBE_SECONDS: Final = 120.0


class BreakerState(StrEnum):
    """Whether work may go to the destination."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@dataclass(frozen=True, slots=True)
class Breaker:
    """How a destination has been doing; `until` is a reading of the monotonic clock, in seconds.

    `failing`: the entries that failed in a row; each heads a lane of its own.
    """

    gate: BreakerState = BreakerState.CLOSED
    failures: int = 0
    failing: frozenset[int] = frozenset()
    openings: int = 0
    until: float = 0.0

    def admits(self, now: float) -> bool:
        """Say whether one more delivery may start; in half-open the probe is on its way already."""
        return self.gate is BreakerState.CLOSED or now >= self.until

    def admitted(self, now: float) -> "Breaker":
        """Return the breaker after a delivery was let through: an open one waits for this probe."""
        if self.gate is BreakerState.CLOSED:
            return self
        return replace(self, gate=BreakerState.HALF_OPEN, until=now + PROBE_SECONDS)

    def answered(self) -> "Breaker":
        """Return the breaker after the destination answered, whatever it thought of the request."""
        return self if self == Breaker() else Breaker()

    def unasked(self, now: float) -> "Breaker":
        """Return the breaker after a delivery that asked nothing of the destination: a probe so spent is repeated."""
        return replace(self, gate=BreakerState.OPEN, until=now) if self.gate is BreakerState.HALF_OPEN else self

    def hurried(self, now: float) -> "Breaker":
        """Return the breaker after somebody asked for the next probe at once; one that is on its way is waited for."""
        return replace(self, until=min(self.until, now)) if self.gate is BreakerState.OPEN else self

    def failed(
        self, failure: Failure, now: float, retry_after_seconds: float = 0.0, *, entry: int | None = None
    ) -> "Breaker":
        """Return the breaker after a failed delivery; permanent failures are answers and do not count.

        `entry`: the one that may be the cause itself; failures of one alone do not open, and what they ask to wait is
        for itself. What was under way when it opened fails for the same reason, and does not make the pause longer.
        """
        if failure in {Failure.NONE, Failure.PERMANENT}:
            return self.answered()
        if self.gate is BreakerState.OPEN:
            return replace(self, until=max(self.until, now + retry_after_seconds))
        failures, failing = self.failures + 1, self.failing if entry is None else self.failing | {entry}
        alone = entry is not None and failing == {entry}
        many = failures >= FAILURES_TO_OPEN and not alone
        opens = failure is Failure.DESTINATION or self.gate is not BreakerState.CLOSED or many
        if not opens and (alone or not retry_after_seconds):
            return replace(self, failures=failures, failing=failing)
        pause = min(OPEN_SECONDS * 2 ** min(self.openings, 8), MOST_OPEN_SECONDS) if opens else 0.0
        return Breaker(BreakerState.OPEN, failures, failing, self.openings + 1, now + max(pause, retry_after_seconds))


MOST_COUNTED: Final = 10_000


class FailureAttribution(StrEnum):
    """What a failure is attributed to; `proven`: the entry has failed often and long enough to be held."""

    UNKNOWN = "unknown"
    ENTRY = "entry"
    PROVEN = "proven"


@dataclass(frozen=True, slots=True)
class Failures:
    """How often an entry has failed in a row, and since when."""

    count: int
    since: float


class PoisonDetector:
    """Finds the entries that always fail at one destination: after `tries` in `seconds`; 0 tries finds none.

    `down_since`: the first failure that may be the destination's since it last answered; None where it is well.
    """

    def __init__(self, tries: int, seconds: float) -> None:
        self.down_since: float | None = None
        self._tries = tries
        self._seconds = seconds
        self._failures: dict[int, Failures] = {}
        self._success_begun = self._success_at = self._doubt_at = -math.inf

    def succeeded(self, entry: int, begun: float, now: float) -> None:
        """Note that an entry, whose delivery began then, was written."""
        self._success_begun, self._success_at = max(self._success_begun, begun), now
        self.answered(entry)

    def answered(self, entry: int) -> None:
        """Note that the destination answered an entry, whatever the answer was."""
        self._failures.pop(entry, None)
        self.down_since = None

    def down(self, now: float) -> None:
        """Note a failure that cannot be one entry's: no connection, no token, too many requests."""
        self._doubt_at = now
        self.down_since = now if self.down_since is None else self.down_since

    def failed(self, entry: int, now: float) -> FailureAttribution:
        """Note that the destination failed on an entry; return what the failure is attributed to."""
        failures = self._failures.pop(entry, None)
        if failures is None or failures.since >= self._success_begun or self._doubt_at > self._success_at:
            self.down(now)
            self._keep(entry, Failures(1, now))
            return FailureAttribution.UNKNOWN
        failures = Failures(failures.count + 1, failures.since)
        if 0 < self._tries <= failures.count and now - failures.since >= self._seconds:
            return FailureAttribution.PROVEN
        self._keep(entry, failures)
        return FailureAttribution.ENTRY

    def _keep(self, entry: int, failures: Failures) -> None:
        if len(self._failures) >= MOST_COUNTED:
            self._failures.pop(next(iter(self._failures)))
        self._failures[entry] = failures


SLOW_FACTOR: Final = 4.0
SLOW_MILLISECONDS: Final = 1000.0
_SMOOTH: Final = 0.05


@dataclass(frozen=True, slots=True)
class ConcurrencyWindow:
    """Additive increase, multiplicative decrease, between 1 and `most`; `usual` is a smoothed answer time."""

    most: int
    size: float
    usual: float = 0.0

    @property
    def limit(self) -> int:
        """How many deliveries may be under way."""
        return max(1, int(self.size))

    def answered(self, milliseconds: float) -> "ConcurrencyWindow":
        """Return the window after an answer: one that took long for this destination shrinks it."""
        slow = self.usual > 0 and milliseconds > max(self.usual * SLOW_FACTOR, SLOW_MILLISECONDS)
        usual = milliseconds if not self.usual else self.usual + _SMOOTH * (milliseconds - self.usual)
        if slow:
            return replace(self, size=max(1.0, self.size * 0.8), usual=usual)
        return replace(self, size=min(float(self.most), self.size + 1.0 / max(self.size, 1.0)), usual=usual)

    def failed(self) -> "ConcurrencyWindow":
        """Return the window after a transient failure: half as wide."""
        return replace(self, size=max(1.0, self.size / 2))


def window(most: int) -> ConcurrencyWindow:
    """Return a window that starts fully open."""
    return ConcurrencyWindow(most, float(most))
