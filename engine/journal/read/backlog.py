"""The backlog: what is unfinished, by destination and by channel; for lists, metrics and alerts.

Each function works on any connection of the journal.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from engine.database.connection import Connection
from engine.journal.claim.claiming import DESTINATIONS
from engine.journal.entry import State
from engine.journal.moment import from_micros
from engine.journal.opening import open_reader

# Whether a destination has work to do.
UNFINISHED: Final = """
SELECT EXISTS (SELECT 1 FROM delivery WHERE destination = ? AND state IN ('received', 'waiting', 'claimed', 'held')
  AND state <> 'delivered')
"""
# The index holds what is not delivered, by destination and state, so that both ends of a state are one step each.
IN_STATE: Final = """
SELECT COUNT(*), MIN(seq) FROM delivery WHERE destination = ? AND state = ? AND state <> 'delivered'
"""
# When an entry came in.
RECEIVED_AT: Final = "SELECT received_at FROM entry WHERE seq = ?"
# Since when a destination holds something.
HELD_SINCE: Final = """
SELECT MIN(settled_at) FROM delivery WHERE destination = ? AND state = 'held' AND state <> 'delivered'
"""
# How many entries of a channel wait there, up to a bound.
OF_CHANNEL: Final = """
SELECT COUNT(*) FROM (SELECT 1 FROM delivery AS d JOIN entry AS e ON e.seq = d.seq
  WHERE d.destination = ? AND d.state = ? AND d.state <> 'delivered' AND e.channel = ? LIMIT ?) AS mine
"""
# The same of what came in shadow and is still to be tried.
IN_SHADOW: Final = """
SELECT COUNT(*) FROM (SELECT 1 FROM delivery AS d JOIN entry AS e ON e.seq = d.seq
  WHERE d.destination = ? AND d.state = ? AND d.state <> 'delivered' AND e.channel = ?
  AND instr(e.flags, '"shadow"') > 0 LIMIT ?) AS mine
"""
# The state of an entry at each destination, and why.
ENDED: Final = "SELECT destination, state, reason, notes FROM delivery WHERE seq = ?"
ON_THE_WAY: Final = ("received", "waiting", "claimed")
MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Backlog:
    """What one destination still has to do.

    `depth`: entries on their way, of which `waiting` come after something older of their patient. `oldest_at`: when the
    oldest was received that waits for nothing but its turn. `held`: entries that wait for a person.
    """

    depth: int
    waiting: int
    oldest_at: datetime | None
    held: int
    held_since: datetime | None


class DestinationResult(NamedTuple):
    """The state of an entry at one destination, why, and the notes on it."""

    state: State
    reason: str
    notes: tuple[str, ...]


def has_unfinished(destination: str, connection: Connection) -> bool:
    """Say whether a destination has unfinished work, held entries among it."""
    return bool(connection.execute(UNFINISHED, (destination,)).fetchone()[0])


def backlog_of(destination: str, connection: Connection) -> Backlog:
    """Return what a destination still has to do."""
    execute = connection.execute
    (received, first), (waiting, _), (claimed, claimed_first) = (
        execute(IN_STATE, (destination, state)).fetchone() for state in ON_THE_WAY
    )
    oldest = min((seq for seq in (first, claimed_first) if seq is not None), default=None)
    held = execute(IN_STATE, (destination, "held")).fetchone()[0]
    since = execute(HELD_SINCE, (destination,)).fetchone()[0] if held else None
    depth = received + waiting + claimed
    return Backlog(depth, waiting, _received(connection, oldest), held, _moment(since))


def ended_of(seq: int, connection: Connection) -> dict[str, DestinationResult]:
    """Return the state of an entry at each destination that it was given to; empty for none."""
    rows = connection.execute(ENDED, (seq,)).fetchall()
    return {
        name: DestinationResult(State(state), reason, tuple(orjson.loads(notes))) for name, state, reason, notes in rows
    }


def unknown_destinations(known: Iterable[str], connection: Connection) -> list[str]:
    """Return the destinations that have unfinished work and are none of those known."""
    rows = connection.execute(DESTINATIONS).fetchall()
    return [name for (name,) in rows if name not in set(known) and has_unfinished(name, connection)]


def of_channel(channel: str, destinations: tuple[str, ...], connection: Connection, *, in_shadow: bool = False) -> int:
    """Return how many deliveries of a channel are on their way; at most 10,000 of each destination and state."""
    return sum(
        connection.execute(IN_SHADOW if in_shadow else OF_CHANNEL, (destination, state, channel, MOST)).fetchone()[0]
        for destination in destinations
        for state in ON_THE_WAY
    )


def _received(connection: Connection, seq: int | None) -> datetime | None:
    row = connection.execute(RECEIVED_AT, (seq,)).fetchone() if seq is not None else None
    return _moment(row[0]) if row else None


def _moment(micros: Any) -> datetime | None:
    return None if micros is None else from_micros(micros)


def backlogs(folder: Path, destinations: Iterable[str]) -> dict[str, Backlog]:
    """Read the backlog of destinations from the file, while an engine runs."""
    with closing(open_reader(folder)) as connection:
        return {name: backlog_of(name, connection) for name in destinations}


def left_of_channel(folder: Path, channel: str, destinations: tuple[str, ...], *, in_shadow: bool = False) -> int:
    """Read from the file how many deliveries of a channel are on their way; bounded as `of_channel` is.

    `in_shadow`: only of what came in shadow, which is still to be tried.
    """
    with closing(open_reader(folder)) as connection:
        return of_channel(channel, destinations, connection, in_shadow=in_shadow)
