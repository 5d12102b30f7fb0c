"""What a search for patients found, and what it searched: which kinds of things, how many messages, how far back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from engine.ops.views.answer import Answer, Count, Time
from engine.ops.views.patient import Other
from engine.ops.views.segments import Named

LEAST: Final = 3
PARTS: Final = f"parts (from {LEAST} characters) of names, patients' numbers and visit numbers"
FACTS: Final = "whole control IDs and entry numbers"
OF_PATIENTS: Final = f"{FACTS}, whole numbers of patients, {PARTS}, and whole words of messages"


class SearchedView(Answer, facts=True):
    """How many messages a search can find, and when the oldest of them was received."""

    messages: Count
    oldest_at: Time | None


class FoundPatient(Answer, facts=True):
    """A patient who was found: the lane, and the newest entry that was found of that one."""

    lane: Count
    entry: Count


class FoundPatients(Answer, facts=True):
    """Patients who were found by parts of names and numbers; `messages.named` names them. `more`: there are more.

    `messages`: how many messages were there to search, the oldest of `oldest_at`. `back_to`: how far back they were
    read when the time for one answer was over, null where all were searched.
    """

    patients: tuple[FoundPatient, ...]
    more: bool
    messages: Count
    oldest_at: Time | None
    back_to: Time | None


def sorted_by_name(found: Sequence[FoundPatient], named: Mapping[int, Named]) -> list[Other]:
    """Return patients by name and then by number; those without a name come last."""
    others = [
        Other(lane=one.lane, entry=one.entry, name=who.name if who else "", numbers=who.numbers if who else ())
        for one in found
        for who in (named.get(one.entry),)
    ]
    return sorted(others, key=lambda one: (not one.name, one.name.casefold(), one.numbers))


def limits_of(found: FoundPatients) -> str:
    """Return what a search did not look through, or did not list; '' where it did all."""
    if found.back_to:
        return f"Names and numbers were read back to {day_of(found.back_to)} in the time for one answer."
    return f"There are more than these {len(found.patients)}: type more of the name or number." if found.more else ""


def amount_of(messages: int, oldest_at: str | None) -> str:
    """Return how many messages were searched, and since when."""
    since = f", the oldest of {day_of(oldest_at)}" if oldest_at else ""
    return f"{messages:,} message{'' if messages == 1 else 's'}{since}"


def day_of(moment: str) -> str:
    """Return the day of a moment, as the engine's machine has it."""
    return f"{datetime.fromisoformat(moment).astimezone():%Y-%m-%d}"
