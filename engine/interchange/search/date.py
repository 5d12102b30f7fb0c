"""Dates of searches: a partial date as the span of milliseconds that it covers."""

import re
from calendar import isleap, monthrange
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DATE: Final = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d\d)(-(?P<day>\d\d)"
    r"(T(?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?(?P<zone>Z|[+-]\d\d:\d\d)?)?)?)?",
    re.ASCII,
)
UNITS: Final = ("year", "month", "day", "hour", "minute", "second")
# In milliseconds; years and months have lengths of their own.
LENGTHS: Final = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}

Span = tuple[int, int]

# The bounds of a period that is open at an end.
NEVER: Final = -(2**62)
EVER: Final = 2**62


def span(text: str) -> Span | None:
    """Return first and last millisecond, UTC, of a FHIR date or dateTime of any precision; None for what is none."""
    match = DATE.fullmatch(text)
    if match is None:
        return None
    given = {unit: int(match[unit]) for unit in UNITS if match[unit] is not None}
    try:
        first = datetime(**{"month": 1, "day": 1, **given}, tzinfo=UTC) - _offset(match["zone"])
        low = _milliseconds(first)
        if match["fraction"]:
            low += int(match["fraction"][:3].ljust(3, "0"))
            return low, low
        return low, low + _length(first, given) - 1
    except (ValueError, OverflowError):
        return None


def _length(first: datetime, given: Mapping[str, int]) -> int:
    """Return how many milliseconds a date or time covers that is given to its last unit."""
    for unit, length in LENGTHS.items():
        if unit in given:
            return length
    return (monthrange(first.year, first.month)[1] if "month" in given else 365 + isleap(first.year)) * LENGTHS["day"]


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))


def _milliseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)
