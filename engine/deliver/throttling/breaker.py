"""The breaker of a destination: a pure value; a clock's reading is an argument.

closed --failures in a row of several entries, or one of the whole destination--> open
open --time--> half-open --one probe, of the entry tried least--> closed | open
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from engine.deliver.verdict import Failure

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
