"""Looks at patients that lists repeat: which patients each log-in has on record, so that one look is recorded once."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

MOST_LOGINS: Final = 1_000
MOST_PATIENTS: Final = 20_000


class Looks:
    """The patients that each log-in has looked at since the engine started.

    What is forgotten, by a restart or beyond the bounds, is recorded once more: a look is never left out.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, set[int]] = OrderedDict()

    def unseen(self, login: str, patients: Mapping[int, tuple[int, ...]]) -> list[int]:
        """Return the entries with a patient whom a log-in has not looked at.

        `patients`: the lanes of each entry's patients; an entry that names none is one by itself.
        """
        seen = self._seen.get(login, set())
        return [entry for entry, lanes in patients.items() if not _marks(entry, lanes) <= seen]

    def note(self, login: str, patients: Mapping[int, tuple[int, ...]]) -> None:
        """Keep that a log-in has looked at the patients of entries, once that is on record."""
        seen = self._seen.setdefault(login, set())
        self._seen.move_to_end(login)
        if len(seen) > MOST_PATIENTS:
            seen.clear()
        seen.update(*(_marks(entry, lanes) for entry, lanes in patients.items()))
        while len(self._seen) > MOST_LOGINS:
            self._seen.popitem(last=False)


def _marks(entry: int, lanes: tuple[int, ...]) -> set[int]:
    return set(lanes) or {-entry}
