"""Moments as the journal stores them: whole microseconds since 1970-01-01 in UTC."""

from datetime import UTC, datetime


def to_micros(moment: datetime) -> int:
    """Return an aware moment as microseconds; exact for the years 1 to 9999."""
    return round(moment.timestamp() * 1_000_000)


def optional_micros(moment: datetime | None) -> int | None:
    """Return a moment as microseconds, None for none."""
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def from_micros(micros: int) -> datetime:
    """Return microseconds as an aware moment in UTC."""
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


def optional_from_micros(micros: int | None) -> datetime | None:
    """Return microseconds as a moment, None for none."""
    return None if micros is None else datetime.fromtimestamp(micros / 1_000_000, UTC)
