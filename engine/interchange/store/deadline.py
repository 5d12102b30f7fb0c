"""Until when the reads of the request at hand may go on; threads that work for it know it too."""

import math
import time
from contextvars import ContextVar
from typing import Final

# A moment of time.monotonic().
DEADLINE: Final[ContextVar[float]] = ContextVar("deadline", default=math.inf)
NEVER: Final = math.inf
# SQLite asks whether to go on after so many steps of its machine: some tenths of a millisecond.
STEPS_BETWEEN: Final = 20_000


def set_deadline(seconds: float) -> None:
    """Let the reads of the request at hand end after some seconds."""
    DEADLINE.set(time.monotonic() + seconds)


def passed(deadline: float) -> bool:
    """Say whether a deadline has passed."""
    return time.monotonic() > deadline
