"""Points in time and intervals of CDA (TS, IVL_TS) as FHIR writes them, no more precise than the document says."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.period import is_reversed
from engine.interchange.clinical.ccda.reading.element import Element, first, said

# YYYY[MM[DD[HH[MM[SS[.S]]]]]][+ZZZZ], also with the signs of ISO 8601 between, which some systems write.
POINT: Final = re.compile(
    r"(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:[T ]?(\d\d)(?::?(\d\d)(?::?(\d\d)(\.\d{1,9})?)?)?)?)?)?"
    r"\s?(?:(Z)|([+-]\d\d):?(\d\d)|([+-]\d\d))?",
    re.ASCII,
)
FURTHEST: Final = 14
SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "wk": 604_800}


def offset_of(text: str) -> str:
    """Return the offset that a point in time is written with (`-05:00`); '' for none."""
    found = POINT.fullmatch(text)
    return _offset(found) if found else ""


def moment(text: str, offset: str) -> str:
    """Return a point in time as a FHIR dateTime, '' for none; `offset` is for one that is written without.

    FHIR has no time of day without an offset: without one in either place only the day is kept. Midnight without an
    offset of its own is a padded day.
    """
    found = POINT.fullmatch(text)
    if found is None:
        return ""
    year, month, day, hour, minute, second, fraction = found.groups()[:7]
    date = "-".join(part for part in (year, month, day) if part)
    minute, second = minute or "00", second or "00"
    own = _offset(found)
    padded = not own and (hour, minute, second) == ("00", "00", "00")
    with_time = f"{date}T{hour}:{minute}:{second}{fraction or ''}{own or offset}" if hour and day else ""
    if with_time and (own or offset) and not padded and _exists(with_time):
        return with_time
    return date if _exists("-".join([date, "01", "01"][: 1 if day else 2 if month else 3])) else ""


def day(text: str) -> str:
    """Return a point in time as a FHIR date, as precise as it is written; '' for none."""
    return moment(text, "").partition("T")[0]


def instant(text: str) -> str:
    """Return a point in time as a FHIR instant; what the document leaves open is its begin, and UTC. '' for none."""
    found = moment(text, "+00:00")
    if not found or "T" in found:
        return found
    return "-".join([found, "01", "01"][: {4: 3, 7: 2, 10: 1}[len(found)]]) + "T00:00:00+00:00"


def interval(element: Element | None, offset: str) -> tuple[str, str]:
    """Return the ends of an interval, or a point in time twice; '' for an end that is not given."""
    if element is None:
        return "", ""
    point = moment(said(element, "value"), offset) or moment(said(element, "value", "center"), offset)
    if point:
        return point, point
    low, high = (moment(said(element, "value", end), offset) for end in ("low", "high"))
    if low and not high:
        high = _after(low, first(element, "width"))
    return (low, "") if is_reversed({"start": low, "end": high}) else (low, high)


def timed(name: str, element: Element | None, offset: str) -> JsonObject:
    """Return the element of a choice of dateTime and Period: `effectiveDateTime` or `effectivePeriod`; {} for none."""
    low, high = interval(element, offset)
    if low and low == high:
        return {f"{name}DateTime": low}
    return {f"{name}Period": period(low, high)} if low or high else {}


def period(low: str, high: str) -> JsonObject:
    """Return a Period of the ends that are given."""
    return {name: end for name, end in (("start", low), ("end", high)) if end}


def _offset(found: re.Match[str]) -> str:
    """Return the offset of a point in time; '' for none, and for one that does not exist."""
    zulu, hours, minutes, whole = found.groups()[7:]
    if zulu:
        return "+00:00"
    hours, minutes = hours or whole, minutes or "00"
    if not hours or int(hours[1:]) >= FURTHEST or int(minutes) > 59:
        return ""
    return f"{hours}:{minutes}".replace("-00:00", "+00:00")


def _exists(text: str) -> bool:
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo:
            found.astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


def _after(low: str, width: Element | None) -> str:
    """Return the end of an interval given by its width; '' for a width that cannot be read."""
    seconds = SECONDS.get(said(width, "unit"))
    if width is None or seconds is None:
        return ""
    try:
        end = datetime.fromisoformat(low) + timedelta(seconds=float(Decimal(said(width, "value")) * seconds))
    except (ValueError, OverflowError, InvalidOperation):
        return ""
    return end.isoformat() if "T" in low else end.date().isoformat()
