"""What a request names: entries, other numbers, times and words; each read in one way, wherever the request comes from.

The terminal, the admin socket, the pages and the API all read with these. A text is a number only in plain digits; from
JSON a number is one without a fraction, and no truth.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from engine.errors import UsageError

Given = Mapping[str, Any]

LARGEST: Final = 10**15 - 1
TIMES: Final = "2025-07-01, 2025-07-01T09:30, or 12h for 12 h ago"
_AGO: Final = re.compile(r"(\d{1,6})([smhdw])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHOWN: Final = 24


def now() -> datetime:
    """Return the moment that times such as `12h` count back from."""
    return datetime.now(UTC)


def is_number(value: object, least: int = 1, most: int = LARGEST) -> bool:
    """Say whether a value is a whole number within bounds; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def digits_of(text: object) -> int | None:
    """Return the number that a text writes in plain digits, at most 15 of them; None where it writes none."""
    written = str(text)
    plain = written.isascii() and written.isdigit() and len(written) <= len(str(LARGEST))
    return int(written) if plain else None


def entry_of(text: object) -> int:
    """Return the entry that a text of the terminal or of an address names; UsageError where it names none."""
    return entry_in({"entry": digits_of(text)}, shown=text)


def run_of(text: object) -> int:
    """Return the bulk run that a text names; UsageError where it names none."""
    return run_in({"run": digits_of(text)}, shown=text)


def alert_of(text: object) -> int:
    """Return the alert that a text names; UsageError where it names none."""
    return alert_in({"alert": digits_of(text)}, shown=text)


def entry_in(given: Given, shown: object = None) -> int:
    """Return the entry that a request names; UsageError where it names none."""
    return _named(given, "entry", "an entry by its number, as `messages list` shows it", shown)


def run_in(given: Given, shown: object = None) -> int:
    """Return the bulk run that a request names; UsageError where it names none."""
    return _named(given, "run", "a run by its number, as `messages replays` shows it", shown)


def alert_in(given: Given, shown: object = None) -> int:
    """Return the alert that a request names; UsageError where it names none."""
    return _named(given, "alert", "an alert by its number, as `alerts list` shows it", shown)


def entries_in(given: Given) -> tuple[int, ...]:
    """Return the entries that a request lists, in order and each once; UsageError where one of them is none."""
    listed = given.get("entries") or ()
    if not isinstance(listed, list | tuple):
        raise UsageError("entries must be a list of numbers of entries, as `messages list` shows them")
    return tuple(sorted({entry_in({"entry": one}) for one in listed}))


def number_in(given: Given, name: str, usual: int = 0, least: int = 0, most: int = LARGEST) -> int:
    """Return a number that a request names, the usual one where it names none; UsageError beyond its bounds."""
    value = given.get(name)
    if value is None:
        return usual
    if not is_number(value, least, most):
        raise UsageError(f"--{name} is a number from {least} to {most}")
    return int(value)


def text_in(given: Given, name: str) -> str:
    """Return a text of a request, empty where it has none; UsageError where it is something else."""
    value = given.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text")
    return value


def moment_in(given: Given, name: str, clock: Callable[[], datetime] = now) -> datetime | None:
    """Return a moment that a request names, None for none; without an offset it is the local time of this machine.

    `12h` is 12 hours ago. UsageError for what is no time.
    """
    text = text_in(given, name).strip()
    if not text:
        return None
    try:
        if ago := _AGO.fullmatch(text):
            return clock() - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--{name} is no time: write {TIMES}") from error


def period_in(given: Given, length: timedelta) -> tuple[datetime, datetime]:
    """Return the time that `since` and `until` of a request name; so long until now where they do not.

    UsageError for what is no time, or has nothing in between.
    """
    until = moment_in(given, "until") or now()
    since = moment_in(given, "since") or until - length
    if since >= until:
        raise UsageError("--since is not before --until: there is nothing in between")
    return since, until


def _named(given: Given, name: str, what: str, shown: object = None) -> int:
    value = given.get(name)
    if not is_number(value):
        found = shown if shown is not None else None if isinstance(value, str) else value
        raise UsageError(f"name {what}{_but(found)}")
    return int(value)  # type: ignore[arg-type]  # what is_number says


def _but(value: object) -> str:
    """Say what was found instead, where that is a number or a truth, or what was typed at the terminal."""
    told = str(value).lower() if isinstance(value, bool) else str(value)
    return f": {told} is none" if isinstance(value, str | int | float) and len(told) <= _SHOWN else ""
