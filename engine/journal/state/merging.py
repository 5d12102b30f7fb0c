"""Merging: how many merges each source had, over restarts, and the channels whose merges are held.

Each function works on the writing connection: hand it to `Journal.write` or `Journal.read`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engine.database.connection import Connection, by_name
from engine.journal.moment import from_micros, to_micros

# Count a merge of a source, once for each entry and number.
COUNT: Final = """
INSERT INTO merge_count (channel, source, event_at, at, seq, number) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
# Keep only the newest merges of a source.
FORGET_OLDEST: Final = """
DELETE FROM merge_count WHERE channel = ?1 AND source = ?2 AND id <= (
  SELECT id FROM merge_count WHERE channel = ?1 AND source = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)
"""
# All merges that count, oldest first.
COUNTED: Final = "SELECT channel, source, event_at, at, seq FROM merge_count ORDER BY id"
# Hold the merges of a channel.
HOLD: Final = "INSERT INTO merges_held (channel, source, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
# The channels whose merges are held.
HELD: Final = "SELECT channel, source, since FROM merges_held ORDER BY channel"
# Let a channel merge again.
LET: Final = "DELETE FROM merges_held WHERE channel = ?"
# Count a channel's merges from nothing.
FORGET: Final = "DELETE FROM merge_count WHERE channel = ?"


@dataclass(frozen=True, slots=True)
class CountedMerge:
    """One merge that was let through: of which entry, when the event took place, and when it was counted."""

    channel: str
    source: str
    event_at: datetime
    at: datetime
    seq: int


@dataclass(frozen=True, slots=True)
class HeldMerges:
    """A channel whose merges are held, and the source that went past its limit."""

    channel: str
    source: str
    since: datetime


def count(connection: Connection, merges: Iterable[CountedMerge], keep: int) -> None:
    """Count merges of one entry; of each source the newest `keep` are kept. The same ones again count once."""
    for number, one in enumerate(merges):
        connection.execute(
            COUNT, (one.channel, one.source, to_micros(one.event_at), to_micros(one.at), one.seq, number)
        )
        connection.execute(FORGET_OLDEST, (one.channel, one.source, keep))


def counted(connection: Connection) -> tuple[CountedMerge, ...]:
    """Return all that is counted, in the order of counting."""
    return tuple(
        CountedMerge(row["channel"], row["source"], from_micros(row["event_at"]), from_micros(row["at"]), row["seq"])
        for row in by_name(connection, COUNTED)
    )


def hold(connection: Connection, held: HeldMerges) -> None:
    """Hold the merges of a channel from now on."""
    connection.execute(HOLD, (held.channel, held.source, to_micros(held.since)))


def held(connection: Connection) -> tuple[HeldMerges, ...]:
    """Return the channels whose merges are held."""
    return tuple(
        HeldMerges(row["channel"], row["source"], from_micros(row["since"])) for row in by_name(connection, HELD)
    )


def let(connection: Connection, channel: str) -> bool:
    """Let a channel merge again, counting from nothing; False where its merges were not held."""
    connection.execute(FORGET, (channel,))
    return bool(connection.execute(LET, (channel,)).rowcount)
