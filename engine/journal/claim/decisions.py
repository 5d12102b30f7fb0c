"""Decisions: what a person decided by the release of a delivery that was held for it, at the place it was held for."""

from typing import Final

from engine.database.connection import Connection

# What is held for one of these waits for a person's decision, which a release is.
BY_RELEASE: Final = frozenset({"merge-conflict", "overlay-suspected", "visit-reused"})
# In `replayed`: what a release decided.
ACT: Final = "decided"
# What somebody has decided of a delivery.
DECIDED: Final = "SELECT DISTINCT reason FROM replayed WHERE seq = ? AND destination = ? AND act = ?"


def by_release(reason: str, notes: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a release decides of a delivery that is held: its reason, at the places that its notes name."""
    if reason not in BY_RELEASE:
        return ()
    return tuple(note for note in notes if note.startswith(f"{reason} ")) or (reason,)


def decided_of(connection: Connection, seq: int, destination: str) -> frozenset[str]:
    """Return what somebody has decided of a delivery."""
    rows = connection.execute(DECIDED, (seq, destination, ACT)).fetchall()
    return frozenset(reason for (reason,) in rows)
