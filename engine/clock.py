"""The wall clock; what must give the same output for the same input takes the time as an argument."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the moment, aware, in UTC."""
    return datetime.now(UTC)
