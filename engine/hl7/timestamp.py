"""Timestamps: the DTM grammar, kept at the precision they came with, placed in a time zone.

YYYY[MM[DD[HH[MM[SS[.S...]]]]]][+/-ZZZZ] (chapter 2A, DTM; before 2.6 TS). Dates are never shifted by a zone.
"""

import re
from collections.abc import Sequence
from datetime import MAXYEAR, UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple

from engine.errors import TimestampError

REPEATED_HOUR: Final = "repeated-hour"
SKIPPED_HOUR: Final = "skipped-hour"
MESSAGE_OFFSET: Final = "message-offset"
ZERO_PADDED: Final = "zero-padded"

_FORM: Final = re.compile(
    r"(?P<year>[0-9]{4})(?:(?P<month>[0-9]{2})(?:(?P<day>[0-9]{2})"
    r"(?:(?P<hour>[0-9]{2})(?:(?P<minute>[0-9]{2})(?:(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,9})?)?)?)?)?)?)?"
    r"(?P<offset>[+-][0-9]{4})?"
)
_DATE_WIDTHS: Final = {4: 4, 6: 7}
_PRECISIONS: Final = (4, 6, 8, 10, 12, 14)
_WIDEST: Final = timedelta(hours=14)


class Timestamp(NamedTuple):
    """A moment as it was sent.

    `precision` is the count of digits sent down to the second (4, 6, 8, 10, 12 or 14), `fraction` the digits behind
    the point, `at` the first instant of what was sent, `day` its first day, `flags` what had to be decided.
    """

    precision: int
    day: date
    at: datetime
    fraction: str = ""
    flags: tuple[str, ...] = ()

    @property
    def date(self) -> date | None:
        """The day as written, None where the precision is less."""
        return self.day if self.precision >= 8 else None

    def fhir_date(self) -> str:
        """Return `YYYY`, `YYYY-MM` or `YYYY-MM-DD`, as written and never shifted."""
        return self.day.isoformat()[: _DATE_WIDTHS.get(self.precision, 10)]

    def fhir_datetime(self) -> str:
        """Return a FHIR dateTime with its offset; a date where no minute was sent, seconds `00` where none were."""
        if self.precision < 12:
            return self.fhir_date()
        moment = self.at.isoformat()
        return f"{moment[:19]}.{self.fraction}{moment[19:]}" if self.fraction else moment

    def __repr__(self) -> str:
        return f"<Timestamp of {self.precision} digits>"


def parse_timestamp(text: str, zone: tzinfo, message_offset: tzinfo | None = None) -> Timestamp:
    """Read a timestamp.

    Without an offset of its own it is in `message_offset` (see `offset_of_message`; flagged) or else in `zone`: of
    a repeated hour the first pass is taken, a time in a skipped hour moves forward, both flagged. Months and days sent
    as `00` lower the precision, flagged. Raises TimestampError for what is no moment of the calendar, here or in UTC.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise TimestampError
    *parts, fraction, own = found.groups()
    digits = [int(part) for part in parts if part]
    padded = 0 in digits[1:3]
    if padded:
        digits = _without_zeros(digits)
    precision = _PRECISIONS[len(digits) - 1]
    if precision < 8:
        digits += (1, 1)[len(digits) - 1 :]
    try:
        if own or message_offset is not None:
            at = datetime(*digits, tzinfo=_offset(own) if own else message_offset)  # type: ignore[arg-type,misc]  # year to second
            flags: tuple[str, ...] = ()
        else:
            at, flags = _placed(digits, zone, precision)
        if not 1 < digits[0] < MAXYEAR:
            at.astimezone(UTC)
    except (ValueError, OverflowError):
        raise TimestampError from None
    if not own and message_offset is not None and precision > 8:
        flags = (*flags, MESSAGE_OFFSET)
    if padded:
        flags = (*flags, ZERO_PADDED)
    return Timestamp(precision, date(*digits[:3]), at, fraction or "", flags)


def offset_of_message(sent_at: str, zone: tzinfo) -> tzinfo | None:
    """Return the offset that MSH-7 gives to the timestamps of a message that have none.

    None where MSH-7 has no offset or cannot be read, or where `zone` has that same offset at that moment: the sender
    then lives in `zone`, and its summer time with it.
    """
    found = _FORM.fullmatch(sent_at.strip())
    if found is None or not found["offset"]:
        return None
    try:
        at = parse_timestamp(sent_at, zone).at
        return None if at.astimezone(zone).utcoffset() == at.utcoffset() else at.tzinfo
    except (TimestampError, ValueError, OverflowError):
        return None


def _without_zeros(digits: list[int]) -> list[int]:
    """Cut off `00` months and days where nothing but zeros follows them."""
    first = digits.index(0, 1)
    if any(digits[first:]):
        raise TimestampError
    return digits[:first]


@lru_cache(maxsize=1_000)
def _offset(text: str) -> tzinfo:
    hours, minutes = int(text[1:3]), int(text[3:5])
    offset = timedelta(hours=hours, minutes=minutes)
    if minutes > 59 or offset > _WIDEST:
        raise TimestampError
    return timezone(-offset if text[0] == "-" else offset)


def _placed(digits: Sequence[int], zone: tzinfo, precision: int) -> tuple[datetime, tuple[str, ...]]:
    """Fix the offset of a time in its zone; one with seconds (local mean time) loses those, as FHIR cannot say them."""
    first = datetime(*digits, tzinfo=zone).utcoffset()  # type: ignore[arg-type,misc]  # year to second
    second = datetime(*digits, tzinfo=zone, fold=1).utcoffset()  # type: ignore[arg-type,misc]  # year to second
    if first is None or second is None:
        raise TimestampError
    local = datetime(*digits, tzinfo=_fixed(max(first, second)))  # type: ignore[arg-type,misc]  # year to second
    if first == second:
        return local, ()
    if first < second:
        local += second - first
    if precision <= 8:
        return local, ()
    return local, (SKIPPED_HOUR,) if first < second else (REPEATED_HOUR,)


@lru_cache(maxsize=1_000)
def _fixed(offset: timedelta) -> tzinfo:
    return timezone(timedelta(minutes=offset // timedelta(minutes=1)))
