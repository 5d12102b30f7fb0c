"""The prefetch buffer of a destination: deliveries claimed ahead, and those that the journal still supplies."""

from collections import deque
from collections.abc import Callable
from datetime import datetime

from engine.journal.entry import Claimed
from engine.journal.journal import Journal


class PrefetchBuffer:
    """Claimed deliveries (`ready`), and the number still to come (`awaited`); `supplied` is called when some arrive."""

    def __init__(
        self, destination: str, journal: Journal, clock: Callable[[], datetime], supplied: Callable[[], None]
    ) -> None:
        self._destination = destination
        self._journal = journal
        self._clock = clock
        self._supplied = supplied
        self.ready: deque[Claimed] = deque()
        self.awaited = 0

    def is_short(self, wanted: int) -> bool:
        """Say whether less than half of what is wanted is at hand or will come."""
        return (len(self.ready) + self.awaited) * 2 < wanted

    def has_room(self, wanted: int) -> bool:
        """Say whether less than half of what is wanted is at hand, so that what falls due now can be claimed."""
        return len(self.ready) * 2 < wanted

    async def ask(self, wanted: int) -> None:
        """Claim what may run now, up to what is wanted, and ask for the rest as it comes."""
        missing = wanted - len(self.ready)
        if missing > 0:
            await self._journal.ask(self._destination, missing, self._clock(), self._take)

    async def ask_for_probes(self, wanted: int) -> None:
        """Claim what was tried least: were it the oldest, an entry that always fails would be every probe."""
        missing = wanted - len(self.ready)
        self.ready.extend(await self._journal.claim(self._destination, missing, self._clock(), least_tried=True))

    async def give_back(self) -> None:
        """Release all of it: readers of the journal see it waiting, and may discard it."""
        if self.ready or self.awaited:
            seqs = [one.seq for one in self.ready]
            self.ready.clear()
            await self._journal.give_back(self._destination, seqs)
            self.awaited = 0

    def _take(self, claims: tuple[Claimed, ...], awaited: int) -> None:
        self.ready.extend(claims)
        self.awaited = awaited
        self._supplied()
