"""What somebody searches for, kept here under an opaque id: an address of a page never holds anything of a patient."""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

MOST_KEPT: Final = 2_000
MOST_OF_ONE: Final = 50

Criteria = Mapping[str, Any]


class Searches:
    """The searches of all sessions, each found by its own session only; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Criteria] = OrderedDict()

    def keep(self, owner: str, criteria: Criteria) -> str:
        """Keep what the owner of a session searches for and return its id."""
        name = secrets.token_urlsafe(12)
        self._kept[owner, name] = dict(criteria)
        mine = [key for key in self._kept if key[0] == owner]
        for key in mine[:-MOST_OF_ONE]:
            del self._kept[key]
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return name

    def find(self, owner: str, name: str) -> Criteria | None:
        """Return what is searched for under an id; None where the owner's session has no such search."""
        return self._kept.get((owner, name))

    def forget(self, owner: str) -> None:
        """Forget all searches of a session."""
        for key in [key for key in self._kept if key[0] == owner]:
            del self._kept[key]
