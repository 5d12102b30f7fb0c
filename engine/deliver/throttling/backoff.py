"""How long to wait before the next attempt: full jitter, and what `Retry-After` says, within bounds."""

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

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
