"""What is held and what waits behind it, read for people on a connection that can never write."""

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from engine.database.connection import Connection, Row, by_name, json_list
from engine.errors import UnknownEntryError
from engine.journal.claim.claiming import with_unfinished
from engine.journal.entry import State
from engine.journal.moment import from_micros, optional_from_micros, to_micros
from engine.journal.opening import open_reader

MOST_WAITING: Final = 10_000

# What is held, the oldest first.
HELD: Final = with_unfinished("""
SELECT d.seq, d.destination, d.lanes, d.reason, d.notes, d.settled_at AS since, e.channel, e.event, e.control_id,
  e.received_at
FROM name CROSS JOIN delivery AS d ON d.destination = name.destination AND d.state = 'held' AND d.state <> 'delivered'
CROSS JOIN entry AS e ON e.seq = d.seq
WHERE (?1 = '' OR d.destination = ?1) AND (?2 = '' OR d.reason = ?2) AND (?3 = '' OR e.channel = ?3)
  AND (?4 = 0 OR d.settled_at >= ?4)
ORDER BY d.seq, d.destination LIMIT ?5
""")
# What is held of those who bear one of these identities (a JSON list), the oldest first.
HELD_OF: Final = """
SELECT d.seq, d.destination, d.lanes, d.reason, d.notes, d.settled_at AS since, e.channel, e.event, e.control_id,
  e.received_at
FROM delivery AS d CROSS JOIN entry AS e ON e.seq = d.seq WHERE d.state = 'held' AND d.seq IN (
  SELECT n.seq FROM json_each(?) AS who CROSS JOIN named_in AS n ON n.identity = who.value)
ORDER BY d.seq, d.destination LIMIT ?
"""
# Where an entry is unfinished, first where it is held.
HELD_HERE: Final = """
SELECT d.seq, d.destination, d.lanes, d.reason, d.notes, d.settled_at AS since, e.channel, e.event, e.control_id,
  e.received_at, d.state
FROM delivery AS d JOIN entry AS e ON e.seq = d.seq
WHERE d.seq = ? AND d.state IN ('held', 'waiting', 'received', 'claimed') ORDER BY d.state <> 'held', d.destination
"""
# Whether there is such an entry.
IS_THERE: Final = "SELECT 1 FROM entry WHERE seq = ?"
# What waits behind an entry in its lanes.
BEHIND: Final = """
SELECT DISTINCT q.seq FROM json_each(?) AS mine CROSS JOIN queue AS q
WHERE q.destination = ? AND q.lane = mine.value AND q.seq > ? ORDER BY q.seq LIMIT ?
"""
# The lanes of entries at a destination.
LANES_OF: Final = """
SELECT d.lanes FROM json_each(?) AS i CROSS JOIN delivery AS d ON d.seq = i.value AND d.destination = ?
"""
# Entries (a JSON list), with where they stand at a destination.
WAITS: Final = """
SELECT e.seq, e.event, e.control_id, e.channel, e.received_at, d.state FROM json_each(?) AS i
CROSS JOIN entry AS e ON e.seq = i.value CROSS JOIN delivery AS d ON d.seq = e.seq AND d.destination = ? ORDER BY e.seq
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One entry that waits; nothing of a patient."""

    seq: int
    event: str
    control_id: str
    channel: str
    received_at: datetime
    state: State


@dataclass(frozen=True, slots=True)
class Held:
    """One delivery that is held: in which lanes, since when and why, and how much waits behind it there.

    `entries` and `patients` count what waits, the latter by lanes and with its own; `more` says that there is more
    than was counted. `particulars`: what its notes say beyond the reason, such as the element that is missing.
    """

    seq: int
    destination: str
    lanes: tuple[int, ...]
    reason: str
    since: datetime | None
    channel: str
    event: str
    control_id: str
    received_at: datetime
    entries: int
    patients: int
    more: bool
    particulars: tuple[str, ...] = ()


def held(
    folder: Path,
    *,
    reason: str = "",
    channel: str = "",
    destination: str = "",
    since: datetime | None = None,
    limit: int = 200,
) -> list[Held]:
    """Return what is held, the oldest first; empty filters filter nothing. `since`: held then or later."""
    begin = to_micros(since) if since is not None else 0
    with closing(open_reader(folder)) as connection:
        connection.execute("BEGIN")  # one moment for all of it
        rows = by_name(connection, HELD, (destination, reason, channel, begin, limit)).fetchall()
        return [_held(connection, row) for row in rows]


def held_at(folder: Path, seq: int, destination: str = "", limit: int = 200) -> tuple[Held, list[Waiting]]:
    """Return the state of an unfinished entry and what waits behind it, at the destination where it is held.

    UnknownEntryError where there is no such entry, or it has nothing unfinished there.
    """
    with closing(open_reader(folder)) as connection:
        connection.execute("BEGIN")  # one moment for all of it
        rows = by_name(connection, HELD_HERE, (seq,)).fetchall()
        here = next((row for row in rows if row["destination"] == (destination or row["destination"])), None)
        if here is None:
            if connection.execute(IS_THERE, (seq,)).fetchone() is None:
                raise UnknownEntryError(f"there is no entry {seq}")
            raise UnknownEntryError(f"entry {seq} has nothing unfinished: nothing waits behind it")
        behind = json_list(_behind(connection, here, limit))
        return _held(connection, here), [
            _waiting(row) for row in by_name(connection, WAITS, (behind, here["destination"]))
        ]


def held_of(connection: Connection, identities: list[int], limit: int) -> list[Held]:
    """Return what is held of the patients who bear one of these identities, the oldest first."""
    rows = by_name(connection, HELD_OF, (json_list(identities), limit)).fetchall()
    return [_held(connection, row) for row in rows]


def held_here(connection: Connection, seq: int, destination: str) -> Held | None:
    """Return how an entry is held at a destination; None where it is not."""
    rows = by_name(connection, HELD_HERE, (seq,)).fetchall()
    here = next((row for row in rows if row["destination"] == destination and row["state"] == State.HELD), None)
    return _held(connection, here) if here else None


def _waiting(row: Row) -> Waiting:
    return Waiting(**dict(row) | {"received_at": from_micros(row["received_at"]), "state": State(row["state"])})


def _held(connection: Connection, row: Row) -> Held:
    behind = _behind(connection, row, MOST_WAITING + 1)
    mine = set(orjson.loads(row["lanes"]))
    theirs = connection.execute(LANES_OF, (json_list(behind), row["destination"])).fetchall()
    patients = mine.union(*(orjson.loads(text) for (text,) in theirs))
    return Held(
        row["seq"], row["destination"], tuple(sorted(mine)), row["reason"], optional_from_micros(row["since"]),
        row["channel"], row["event"], row["control_id"], from_micros(row["received_at"]),
        min(len(behind), MOST_WAITING), len(patients), len(behind) > MOST_WAITING, _particulars(row),
    )  # fmt: skip


def _particulars(row: Row) -> tuple[str, ...]:
    begin = f"{row['reason']} "
    return tuple(note.removeprefix(begin) for note in orjson.loads(row["notes"]) if note.startswith(begin))


def _behind(connection: Connection, row: Row, most: int) -> list[int]:
    values = (row["lanes"], row["destination"], row["seq"], most)
    return [one for (one,) in connection.execute(BEHIND, values).fetchall()]
