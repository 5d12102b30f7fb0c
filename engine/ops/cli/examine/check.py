"""One thing that was looked at, and what to do about it."""

from dataclasses import dataclass
from enum import StrEnum


class CheckStatus(StrEnum):
    """The result: `look` is for a person to judge, `mend` (to be fixed) would keep the engine from running well."""

    GOOD = "ok"
    LOOK = "look"
    FIX = "mend"


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its result, what was found, and the next step where it is not good."""

    what: str
    standing: CheckStatus
    found: str
    do: str = ""


def check(what: str, found: str, *, good: bool, do: str, otherwise: CheckStatus = CheckStatus.FIX) -> Check:
    """Return a check that is good, or else has the state `otherwise`, with the next step."""
    return Check(what, CheckStatus.GOOD, found) if good else Check(what, otherwise, found, do)
