"""Moments, ages and codes as text for people."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Final

from engine.fhir.json import Json

DAY: Final = 10
MINUTE: Final = 16


def moment(text: str) -> str:
    """Return a FHIR date or dateTime to the minute, `2025-06-30 14:05`, with its own offset."""
    if len(text) <= DAY:
        return text
    zone = text[19:].lstrip("0123456789.")
    minute = f"{text[:DAY]} {text[DAY + 1 : MINUTE]}"
    return f"{minute} UTC" if zone in {"Z", "+00:00"} else f"{minute} {zone}".strip()


def named(concept: Mapping[str, Json] | None) -> str:
    """Return the name of a concept of the Chart API; '' for none."""
    return str((concept or {}).get("display") or (concept or {}).get("code") or "")


def spoken(code: str) -> str:
    """Return a FHIR code as words: `entered-in-error` is `entered in error`."""
    return str(code or "").replace("-", " ").replace("_", " ")


def age(born: str, at: datetime) -> str:
    """Return the age in years; '' if the birth date is not known to the day."""
    try:
        day = date.fromisoformat(born)
    except ValueError:
        return ""
    years = at.year - day.year - ((at.month, at.day) < (day.month, day.day))
    return f"{years} years" if years > 1 else f"{max(0, (at.date() - day).days // 30)} months"
