"""Times of FHIR as those of CDA: at their precision, a moment in the zone of the reader with its offset."""

import re
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.element import Element, add

NO_DIGIT: Final = re.compile(r"[-:T]")
Span = tuple[str, str]


def value_of(text: str, zone: ZoneInfo) -> str:
    """Return a date, dateTime or instant as a TS: `2025`, `20250701`, `20250701030500-0700`; '' for ''.

    A fraction of a second stays where it is not zero.
    """
    if len(text) <= 10:
        return text.replace("-", "")
    local = _local(text, zone)
    if local is None:
        return _digits(text)
    fraction = f".{local.microsecond:06d}".rstrip("0") if local.microsecond else ""
    # Written by hand: %Y of a year before 1000 has fewer than four digits on some systems.
    return (
        f"{local.year:04d}{local.month:02d}{local.day:02d}"
        f"{local.hour:02d}{local.minute:02d}{local.second:02d}{fraction}{local:%z}"
    )


def readable(text: str, zone: ZoneInfo) -> str:
    """Return a date, dateTime or instant as people read it: `2025-07-01`, `2025-07-01 03:05 PDT`."""
    if len(text) <= 10:
        return text
    local = _local(text, zone)
    if local is None:
        return text
    return f"{local.year:04d}-{local.month:02d}-{local.day:02d} {local.hour:02d}:{local.minute:02d} {local.tzname()}"


def span_of(resource: JsonObject, name: str) -> Span:
    """Return the start and the end of a choice of times (`onset`, `performed`), '' for what is not given."""
    period = resource.get(f"{name}Period")
    if period:
        return period.get("start", ""), period.get("end", "")
    return resource.get(f"{name}DateTime") or resource.get(f"{name}Instant") or resource.get(f"{name}Date") or "", ""


def readable_span(span: Span, zone: ZoneInfo) -> str:
    """Return a start and an end as people read them."""
    start, end = (readable(one, zone) for one in span)
    return f"{start} – {end}" if end else start


def add_time(parent: Element, tag: str, text: str, zone: ZoneInfo) -> Element:
    """Append a point in time; nullFlavor UNK for ''."""
    value = value_of(text, zone)
    return add(parent, tag, value=value) if value else add(parent, tag, nullFlavor="UNK")


def add_interval(parent: Element, tag: str, span: Span, zone: ZoneInfo, *, ended: bool = False) -> Element:
    """Append an interval. The low is always there, perhaps as unknown; the high if known, or if it has `ended`."""
    made = add(parent, tag)
    add_time(made, "low", span[0], zone)
    if span[1] or ended:
        add_time(made, "high", span[1], zone)
    return made


def add_when(parent: Element, tag: str, span: Span, zone: ZoneInfo) -> Element:
    """Append a point in time, or an interval where an end is known."""
    return add_interval(parent, tag, span, zone) if span[1] else add_time(parent, tag, span[0], zone)


def _local(text: str, zone: ZoneInfo) -> datetime | None:
    """Return a moment in a zone; None for a leap second and for what lies beyond the calendar there.

    Before zones were agreed the offsets had seconds, which CDA cannot say: such a moment is written in UTC.
    """
    try:
        moment = datetime.fromisoformat(text)
        local = moment.astimezone(zone)
        offset = local.utcoffset()
        return local if offset is None or not offset.seconds % 60 else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _digits(text: str) -> str:
    """Return a moment as it was written, without the marks between its digits."""
    date, _, time = text.partition("T")
    clock = re.split(r"[Z+-]", time)[0]
    offset = time[len(clock) :].replace("Z", "+0000")
    return f"{NO_DIGIT.sub('', date)}{NO_DIGIT.sub('', clock)}{offset.replace(':', '')}"
