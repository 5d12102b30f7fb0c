"""Dates of searches: a partial date as the span of milliseconds that it covers."""

import re
from calendar import isleap, monthrange
from datetime import date
from typing import Final

from engine.interchange.kernel.outcome import Category, refuse

EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
DATE: Final = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)"
    r"(?:T([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d|60)(?:\.(\d+))?)?(?:Z|([+-]\d\d):(\d\d))?)?)?)?",
    re.ASCII,
)
# A time without a zone is no moment.
MOMENT: Final = re.compile(r"[^T]+(?:T.+(?:Z|[+-][0-9]{2}:[0-9]{2}))?")
# The edition of these rules: it changes when the rows of dates do.
READING: Final = "a leap second is of its own minute"
# In milliseconds.
SECOND: Final = 1_000
MINUTE: Final = 60_000
HOUR: Final = 3_600_000
DAY: Final = 86_400_000

Span = tuple[int, int]

# The bounds of a period that is open at an end.
NEVER: Final = -(2**62)
EVER: Final = 2**62


def span(text: str) -> Span | None:
    """Return first and last millisecond, UTC, of a FHIR date or dateTime of any precision; None for anything else.

    A second 60 (a leap second) is counted as the 59th: it is one of its own minute, day and year. Fractions count to
    the millisecond.
    """
    match = DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone_hours, zone_minutes = match.groups()
    try:
        # Not by datetime: an hour before the year 1, or after 9999, has its place, too.
        low = (date(int(year), int(month or 1), int(day or 1)).toordinal() - EPOCH_DAY) * DAY
    except ValueError:
        return None
    if hour is None:
        days = 1 if day else monthrange(int(year), int(month))[1] if month else 365 + isleap(int(year))
        return low, low + days * DAY - 1
    low += int(hour) * HOUR + int(minute) * MINUTE + min(int(second or 0), 59) * SECOND
    if zone_hours:
        ahead = int(zone_hours[1:]) * HOUR + int(zone_minutes) * MINUTE
        low -= ahead if zone_hours[0] == "+" else -ahead
    if fraction:
        low += int(fraction[:3].ljust(3, "0"))
        return low, low
    return low, low + (SECOND if second else MINUTE) - 1


def read_since(text: str | None) -> int:
    """Return the first millisecond of `_since`, NEVER for none; RefusedError (400) for anything but a moment."""
    if text is None:
        return NEVER
    at = span(text) if MOMENT.fullmatch(text) else None
    if at is None:
        text = "_since must be a moment, YYYY-MM-DDThh:mm:ssZ."
        raise refuse(Category.BAD_VALUE, text, location="http._since")
    return at[0]
