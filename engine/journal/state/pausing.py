"""Destinations that take nothing, channels that are stopped, and merges counted for the merge limit, over restarts.

Each function works on the writing connection: hand it to `Journal.write` or `Journal.read`.

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


# Means every destination, in a journal that was restored: which there are is known when the engine starts.
EVERYWHERE: Final = "*"

# Pause a destination; the first reason stays.
PAUSE: Final = """
INSERT INTO paused (destination, reason, detail, since, by) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
"""
# The destinations that are paused.
PAUSED: Final = "SELECT destination, reason, detail, since, by FROM paused ORDER BY destination"
# Let a destination go on.
RESUME: Final = "DELETE FROM paused WHERE destination = ?"
# Stop a channel.
STOP: Final = "INSERT INTO stopped (channel, since, by) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
# The channels that are stopped.
STOPPED: Final = "SELECT channel, since, by FROM stopped ORDER BY channel"
# Let a channel listen again.
START: Final = "DELETE FROM stopped WHERE channel = ?"


@dataclass(frozen=True, slots=True)
class Pause:
    """A destination that takes nothing: why (a code of the table of reasons), since when, and who said so."""

    destination: str
    reason: str
    detail: str
    since: datetime
    by: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """A channel that takes nothing."""

    channel: str
    since: datetime
    by: str


def pause(connection: Connection, pauses: Iterable[Pause]) -> None:
    """Pause destinations; one that is paused already stays so for its first reason."""
    rows = [(one.destination, one.reason, one.detail, to_micros(one.since), one.by) for one in pauses]
    connection.executemany(PAUSE, rows)


def pause_everywhere(connection: Connection, reason: str, now: datetime, by: str = "") -> None:
    """Pause every destination, whichever there will be when the engine starts: of a journal that was restored."""
    connection.execute(PAUSE, (EVERYWHERE, reason, "", to_micros(now), by))


def paused(connection: Connection) -> tuple[Pause, ...]:
    """Return what is paused, by name."""
    return tuple(Pause(**dict(row) | {"since": from_micros(row["since"])}) for row in by_name(connection, PAUSED))


def paused_at_start(connection: Connection, destinations: Iterable[str]) -> tuple[Pause, ...]:
    """Return what is paused, by name; what was said of every destination is from now on said of each of these."""
    everywhere = next((one for one in paused(connection) if one.destination == EVERYWHERE), None)
    if everywhere is not None:
        one = everywhere
        pause(connection, [Pause(name, one.reason, one.detail, one.since, one.by) for name in destinations])
        connection.execute(RESUME, (EVERYWHERE,))
    return paused(connection)


def resume(connection: Connection, destination: str) -> bool:
    """Let a destination go on; False where it was not paused."""
    return bool(connection.execute(RESUME, (destination,)).rowcount)


def stop(connection: Connection, channel: str, now: datetime, by: str) -> None:
    """Keep a channel stopped."""
    connection.execute(STOP, (channel, to_micros(now), by))


def stopped(connection: Connection) -> tuple[Stopped, ...]:
    """Return the channels that are stopped, by name."""
    return tuple(Stopped(**dict(row) | {"since": from_micros(row["since"])}) for row in by_name(connection, STOPPED))


def start(connection: Connection, channel: str) -> bool:
    """Let a channel listen again; False where it was not stopped."""
    return bool(connection.execute(START, (channel,)).rowcount)
