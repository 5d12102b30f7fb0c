"""Poison detection: whether a failure is the destination's or that of one entry, which fails while others succeed.

unknown --another delivery, begun after its failure, succeeds--> of the entry --so often, for so long--> proven

An entry that fails while nobody succeeds proves nothing: it may be an outage. So its count begins anew with each
failure until a write of another entry, begun after it, has succeeded, and again when an entry without suspicion fails
later than the last success. Clocks are monotonic, in seconds; what is known lasts as long as the process.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

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
