"""Dates of searches: a partial date as the span of milliseconds that it covers."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DATE: Final = re.compile(
    r"(?P<year>\d{4})(-(?P<month>\d\d)(-(?P<day>\d\d)"
    r"(T(?P<hour>\d\d):(?P<minute>\d\d)(:(?P<second>\d\d)(\.(?P<fraction>\d{1,9}))?)?(?P<zone>Z|[+-]\d\d:\d\d)?)?)?)?"
)
UNITS: Final = ("year", "month", "day", "hour", "minute", "second")

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
        if match["fraction"]:
            first += timedelta(milliseconds=int(match["fraction"][:3].ljust(3, "0")))
            return _milliseconds(first), _milliseconds(first)
        return _milliseconds(first), _milliseconds(_next(first, given)) - 1
    except (ValueError, OverflowError):
        return None


def _next(first: datetime, given: dict[str, int]) -> datetime:
    if "day" not in given:
        months = 12 if "month" not in given else 1
        month = first.month - 1 + months
        return first.replace(year=first.year + month // 12, month=month % 12 + 1)
    steps = {"second": 1, "minute": 60, "hour": 60, "day": 86_400}
    return first + timedelta(seconds=next(steps[unit] for unit in steps if unit in given))


def _offset(zone: str | None) -> timedelta:
    if zone is None or zone == "Z":
        return timedelta()
    sign = -1 if zone[0] == "-" else 1
    return sign * timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))


def _milliseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)
