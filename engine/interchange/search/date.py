"""Dates of searches: a partial date as the span of milliseconds that it covers."""

import re
from calendar import isleap, monthrange
from collections.abc import Mapping
from datetime import date
from typing import Final

EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
DATE: Final = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d\d)(-(?P<day>\d\d)"
    r"(T(?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d+))?)?(?P<zone>Z|[+-]\d\d:\d\d)?)?)?)?",
    re.ASCII,
)
UNITS: Final = ("year", "month", "day", "hour", "minute", "second")
# In milliseconds; years and months have lengths of their own.
LENGTHS: Final = {"second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}

MOST: Final = {"hour": 23, "minute": 59, "second": 60}

Span = tuple[int, int]

# The bounds of a period that is open at an end.
NEVER: Final = -(2**62)
EVER: Final = 2**62


def span(text: str) -> Span | None:
    """Return first and last millisecond, UTC, of a FHIR date or dateTime of any precision; None for what is none.

    A second 60 (a leap second) is the one after the 59th. Fractions count to the millisecond.
    """
    match = DATE.fullmatch(text)
    if match is None:
        return None
    given = {unit: int(match[unit]) for unit in UNITS if match[unit] is not None}
    year, month, day = (given.get(unit, 1) for unit in UNITS[:3])
    try:
        # Not by datetime: an hour before the year 1, or after 9999, has its place, too.
        days = date(year, month, day).toordinal() - EPOCH_DAY
    except ValueError:
        return None
    if any(given.get(unit, 0) > most for unit, most in MOST.items()):
        return None
    low = days * LENGTHS["day"] - _offset(match["zone"])
    low += sum(given.get(unit, 0) * LENGTHS[unit] for unit in MOST)
    if match["fraction"]:
        low += int(match["fraction"][:3].ljust(3, "0"))
        return low, low
    return low, low + _length(year, month, given) - 1


def _length(year: int, month: int, given: Mapping[str, int]) -> int:
    """Return how many milliseconds a date or time covers that is given to its last unit."""
    for unit, length in LENGTHS.items():
        if unit in given:
            return length
    return (monthrange(year, month)[1] if "month" in given else 365 + isleap(year)) * LENGTHS["day"]


def _offset(zone: str | None) -> int:
    """Return the milliseconds by which a zone is ahead of UTC."""
    if zone is None or zone == "Z":
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * LENGTHS["hour"] + int(zone[4:6]) * LENGTHS["minute"])
