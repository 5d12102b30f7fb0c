"""Counters: what came in by one channel since the start, for lists, pages and alerts; nothing of a patient."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from engine.journal.entry import BY_RULE, NewEntry, Recorded, State

MOST_NAMES: Final = 1_000
CROWDED: Final = "lane-crowded"


@dataclass(frozen=True, slots=True)
class Sight:
    """Something seen for the first time: `kind` (source, authority, lane), its name, and in which entry."""

    kind: str
    name: str
    seq: int


@dataclass(slots=True)
class Counters:
    """Counters of one channel; `names` are the sources and authorities known so far, `sights` what is new of them.

    A source is MSH-3|MSH-4; an authority, the system that was made of a CX.4 which the channel does not list. `rules`:
    how often a filter of each name held.
    """

    messages: int = 0
    refused: int = 0
    duplicates: int = 0
    last_at: datetime | None = None
    names: set[tuple[str, str]] = field(default_factory=set)
    sights: list[Sight] = field(default_factory=list)
    filtered: int = 0
    rules: Counter[str] = field(default_factory=Counter)

    def count(self, entry: NewEntry, recorded: Recorded, base_uri: str) -> None:
        """Count one message that was recorded."""
        self.messages += 1
        self.last_at = entry.received_at
        if recorded.duplicate:
            self.duplicates += 1
            return
        if entry.state is State.REJECTED:
            self.refused += 1
        self.filtered += entry.state is State.FILTERED
        self.rules.update(flag.partition(" ")[2] for flag in entry.flags if flag.startswith(f"{BY_RULE} "))
        if ("source", entry.source) not in self.names:
            self._see("source", entry.source, recorded.seq)
        if not recorded.flags:
            return
        if CROWDED in recorded.flags:
            self._see("lane", str(recorded.seq), recorded.seq)
        if any(flag.startswith("unknown-authority") for flag in recorded.flags):
            for key in {key.partition("|")[0] for group in entry.patients for key in group}:
                if key.startswith(base_uri) and ("authority", key) not in self.names:
                    self._see("authority", key, recorded.seq)

    def _see(self, kind: str, name: str, seq: int) -> None:
        if len(self.names) < MOST_NAMES:
            self.names.add((kind, name))
            self.sights.append(Sight(kind, name, seq))
