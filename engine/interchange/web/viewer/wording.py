"""Moments, ages and codes as text for people."""

from datetime import date, datetime
from typing import Final

DAY: Final = 10
MINUTE: Final = 16


def moment(text: str) -> str:
    """Return a FHIR date or dateTime to the minute, `2025-06-30 14:05`, with its own offset."""
    if len(text) <= DAY:
        return text
    zone = text[19:].lstrip("0123456789.")
    minute = f"{text[:DAY]} {text[DAY + 1 : MINUTE]}"
    return f"{minute} UTC" if zone in {"Z", "+00:00"} else f"{minute} {zone}".strip()


# Codes that are more than their words.
WORDS: Final = {"onleave": "on leave", "not-done": "not given"}


def spoken(code: str) -> str:
    """Return a FHIR code as words: `entered-in-error` is `entered in error`."""
    return WORDS.get(str(code), str(code or "").replace("-", " ").replace("_", " "))


def age(born: str, at: datetime) -> str:
    """Return the age in years; '' if the birth date is not known to the day."""
    try:
        day = date.fromisoformat(born)
    except ValueError:
        return ""
    years = at.year - day.year - ((at.month, at.day) < (day.month, day.day))
    return f"{years} years" if years > 1 else f"{max(0, (at.date() - day).days // 30)} months"
