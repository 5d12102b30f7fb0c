"""Whom a message is about, in its own words: the name, the numbers and the birth date of its first PID."""

from typing import Final

from engine.ops.views.answer import Answer, Count
from engine.ops.views.segments import read

MOST_NUMBERS: Final = 5


class Named(Answer):
    """Whom an entry's message is about, in its own words; empty where it does not say, or its body is gone."""

    entry: Count
    name: str
    numbers: tuple[str, ...]
    born: str


def named(entry: int, raw: bytes, charset: str = "") -> Named:
    """Return whom a message is about: PID-5, the first five numbers of PID-3, PID-7."""
    message = read(raw, charset) if raw else None
    pid = message.first("PID") if message else None
    if message is None or pid is None:
        return Named(entry=entry, name="", numbers=(), born="")
    family, given = (str(message.leaf("PID", 5, part) or "") for part in (1, 2))
    numbers = (str(message.leaf("PID", 3, repetition=at + 1) or "") for at in range(len(pid.repetitions(3))))
    found = tuple(number for number in numbers if number)[:MOST_NUMBERS]
    return Named(
        entry=entry, name=full_name(family, given), numbers=found, born=_day(str(message.leaf("PID", 7) or ""))
    )


def _day(text: str) -> str:
    """Return the day of an HL7 time as people write it; what is no full day as it is."""
    day = text[:8]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}" if len(day) == 8 and day.isdigit() else day


def full_name(family: str, given: str) -> str:
    """Return a name as lists show it: `Quintero, Marisol`."""
    return f"{family}, {given}".strip(", ")
