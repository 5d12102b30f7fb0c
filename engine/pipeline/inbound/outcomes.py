"""Who waits for the outcome of an entry: channels that acknowledge on delivery."""

import asyncio
from dataclasses import dataclass

from engine.journal.entry import State


@dataclass(frozen=True, slots=True)
class EntryOutcome:
    """How an entry ended at the destinations that count, why, and what is noted of that (`self-merge 2`)."""

    state: State
    reason: str
    notes: tuple[str, ...] = ()


class Outcomes:
    """Futures by entry; an entry that nobody waits for costs nothing."""

    def __init__(self) -> None:
        self._waiting: dict[int, asyncio.Future[EntryOutcome]] = {}
        self._missing: dict[int, set[str]] = {}

    def expect(self, seq: int, destinations: frozenset[str]) -> asyncio.Future[EntryOutcome]:
        """Return a future that is set once every one of the destinations has settled the entry."""
        future = self._waiting.get(seq)
        if future is None:
            future = self._waiting[seq] = asyncio.get_running_loop().create_future()
            self._missing[seq] = set(destinations)
        return future

    def awaited(self) -> dict[int, frozenset[str]]:
        """Return the entries that are waited for, and at which destinations they are not settled yet."""
        return {seq: frozenset(missing) for seq, missing in self._missing.items()}

    def settled(self, seq: int, destination: str, outcome: EntryOutcome) -> None:
        """Note that one destination has settled an entry; anything but delivered or filtered ends the wait at once."""
        missing = self._missing.get(seq)
        if missing is None or destination not in missing:
            return
        missing.discard(destination)
        if missing and outcome.state in {State.DELIVERED, State.FILTERED}:
            return
        self.forget(seq, outcome)

    def forget(self, seq: int, outcome: EntryOutcome | None = None) -> None:
        """End the wait for an entry, with an outcome or by cancelling it."""
        self._missing.pop(seq, None)
        future = self._waiting.pop(seq, None)
        if future is not None and not future.done():
            if outcome is None:
                future.cancel()
            else:
                future.set_result(outcome)
