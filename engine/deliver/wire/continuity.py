"""Whether what is remembered of a server may still be so: only while its answers follow one another without a break.

A server that is restored from a backup gives the same ids and versions to other records, so that `If-Match` alone does
not protect them. Nothing in FHIR tells of a restore; but none takes place between two answers of a burst without a lost
connection, an answer that fails, or a pause. So bodies are remembered within a burst only, which is where reading first
would cost something: a server that is asked now and then is read each time, for a request more.
"""

import math
from collections.abc import Callable
from typing import Final

# A pause after which nothing is remembered: nothing is under way, and no answer came since.
QUIET_SECONDS: Final = 0.25
# How long requests may be under way without any answer until nothing is remembered.
HANGING_SECONDS: Final = 3.0


class Continuity:
    """The answers of one server. `ticks` is a monotonic clock.

    `doubt` is called after a pause, `forget` after a lost connection and a request without an answer. `breaks` counts
    the latter: what was read before one is not written upon.
    """

    def __init__(
        self,
        ticks: Callable[[], float],
        forget: Callable[[], None] = lambda: None,
        doubt: Callable[[], None] = lambda: None,
    ) -> None:
        self.breaks = 0
        self._forget = forget
        self._doubt = doubt
        self._ticks = ticks
        self._under_way = 0
        self._answered_at = -math.inf

    def sent(self) -> None:
        """Note that a request is sent."""
        self._under_way += 1

    def answered(self) -> None:
        """Note an answer, whatever it says."""
        self._under_way -= 1
        self._answered_at = self._ticks()

    def unanswered(self) -> None:
        """Note that a request found no answer."""
        self._under_way -= 1
        self.broken()

    def broken(self) -> None:
        """Note that a connection was lost: the server behind the next one may be another."""
        self.breaks += 1
        self._forget()

    def check(self) -> None:
        """Doubt what is remembered where the server was quiet for too long."""
        quiet = self._ticks() - self._answered_at
        if quiet > (HANGING_SECONDS if self._under_way else QUIET_SECONDS):
            self._doubt()
