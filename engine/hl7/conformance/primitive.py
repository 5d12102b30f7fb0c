"""The primitive data types: what their values look like, and how long they may be (chapter 2A)."""

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_MOMENT: Final = re.compile(
    r"([0-9]{4})(?:(0[1-9]|1[0-2])(?:(0[1-9]|[12][0-9]|3[01])(?:(?:[01][0-9]|2[0-3])(?:[0-5][0-9](?:[0-5][0-9]"
    r"(?:\.[0-9]{1,4})?)?)?)?)?)?(?:[+-](?:0[0-9]|1[0-4])[0-5][0-9])?"
)
_SHORTEST_MONTH: Final = "28"
_TIME: Final = r"([01][0-9]|2[0-3])([0-5][0-9]([0-5][0-9](\.[0-9]{1,4})?)?)?([+-][0-9]{4})?"


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive type: its name, what a value of it is called, what fits, and the longest value (0: no bound)."""

    name: str
    kind: str
    fits: Callable[[str], bool] | None = None
    longest: int = 0


def _form(pattern: str) -> Callable[[str], bool]:
    match = re.compile(pattern).fullmatch
    return lambda text: match(text) is not None


def _date(text: str) -> bool:
    return len(text) <= len("YYYYMMDD") and text.isdigit() and _moment(text)


def _moment(text: str) -> bool:
    found = _MOMENT.fullmatch(text)
    if found is None or found[1] == "0000":
        return False
    day = found[3]
    return day is None or day <= _SHORTEST_MONTH or int(day) <= monthrange(int(found[1]), int(found[2]))[1]


KINDS: Final = {
    "NM": Primitive("NM", "a number", _form(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)")),
    "SI": Primitive("SI", "a sequence number", _form(r"[0-9]+")),
    "DT": Primitive("DT", "a date", _date),
    "TM": Primitive("TM", "a time of day", _form(_TIME)),
    "DTM": Primitive("DTM", "a timestamp", _moment),
    "ID": Primitive("ID", "a code"),
    "IS": Primitive("IS", "a code"),
}
"""The types that hold more than text."""


def primitive(name: str, longest: int = 0) -> Primitive:
    """Return a primitive type with a bound; a name that is not listed is text."""
    known = KINDS.get(name) or Primitive(name, "text")
    return Primitive(known.name, known.kind, known.fits, longest)


def kind_of(text: str) -> str:
    """Say of what kind a value is, and nothing of what it says."""
    if text.isascii() and text.isdigit():
        return f"{len(text)} digits"
    return f"{len(text)} characters"
