"""Who was refused for want of room at a channel's door, by address and limit, until somebody asks."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

# How many refused addresses are remembered between two looks.
MOST_REFUSED: Final = 100


class Refusals:
    """Counts of those refused, of at most 100 addresses."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, address: str, limit: str) -> None:
        """Count one, refused by a limit (`connections_per_address 8`)."""
        if len(self._counts) < MOST_REFUSED or (address, limit) in self._counts:
            self._counts[address, limit] += 1

    def take(self) -> Mapping[tuple[str, str], int]:
        """Return who was refused since this was asked last, and how often."""
        found, self._counts = self._counts, Counter()
        return found
