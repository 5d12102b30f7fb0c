"""What is held and what waits behind it, read for people on a connection that can never write."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.errors import UnknownEntryError
from engine.journal.claim import unfinished
from engine.journal.entry import State
from engine.journal.file.database import open_reader
from engine.journal.moment import from_micros, optional_from_micros
from engine.sqlite import Connection

MOST_WAITING: Final = 10_000

HELD: Final = f"""
{unfinished.NAMES}
SELECT d.seq, d.destination, d.lanes, d.reason, d.settled_at, e.channel, e.event, e.control_id, e.received_at
FROM name CROSS JOIN delivery AS d ON d.destination = name.destination AND d.state = 'held' AND d.state <> 'delivered'
CROSS JOIN entry AS e ON e.seq = d.seq
WHERE (?1 = '' OR d.destination = ?1) AND (?2 = '' OR d.reason = ?2) AND (?3 = '' OR e.channel = ?3)
ORDER BY d.seq LIMIT ?4
"""  # noqa: S608 - a constant
HELD_HERE: Final = """
SELECT d.seq, d.destination, d.lanes, d.reason, d.settled_at, e.channel, e.event, e.control_id, e.received_at
FROM delivery AS d JOIN entry AS e ON e.seq = d.seq
WHERE d.seq = ? AND d.state IN ('held', 'waiting', 'received', 'claimed') ORDER BY d.state <> 'held', d.destination
"""
IS_THERE: Final = "SELECT 1 FROM entry WHERE seq = ?"
BEHIND: Final = """
SELECT DISTINCT q.seq FROM json_each(?) AS mine CROSS JOIN queue AS q
WHERE q.destination = ? AND q.lane = mine.value AND q.seq > ? ORDER BY q.seq LIMIT ?
"""
LANES_OF: Final = """
SELECT d.lanes FROM json_each(?) AS i CROSS JOIN delivery AS d ON d.seq = i.value AND d.destination = ?
"""
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
    than was counted.
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


def held(folder: Path, *, reason: str = "", channel: str = "", destination: str = "", limit: int = 200) -> list[Held]:
    """Return what is held, the oldest first; empty filters filter nothing."""
    with _reading(folder) as connection:
        rows = connection.execute(HELD, (destination, reason, channel, limit)).fetchall()
        return [_held(connection, row) for row in rows]


def held_at(folder: Path, seq: int, destination: str = "", limit: int = 200) -> tuple[Held, list[Waiting]]:
    """Return where an unfinished entry stands and what waits behind it, at the destination where it is held.

    UnknownEntryError where there is no such entry, or it has nothing unfinished there.
    """
    with _reading(folder) as connection:
        rows = [row for row in connection.execute(HELD_HERE, (seq,)).fetchall() if row[1] == (destination or row[1])]
        if not rows:
            if connection.execute(IS_THERE, (seq,)).fetchone() is None:
                raise UnknownEntryError(f"there is no entry {seq}")
            raise UnknownEntryError(f"entry {seq} has nothing unfinished: nothing waits behind it")
        name, lanes = rows[0][1], rows[0][2]
        behind = _behind(connection, seq, name, lanes, limit)
        waits = connection.execute(WAITS, (orjson.dumps(behind).decode(), name)).fetchall()
        return _held(connection, rows[0]), [_waiting(row) for row in waits]


def _waiting(row: tuple[Any, ...]) -> Waiting:
    seq, event, control_id, channel, received, state = row
    return Waiting(seq, event, control_id, channel, from_micros(received), State(state))


def _held(connection: Connection, row: tuple[Any, ...]) -> Held:
    seq, destination, lanes, reason, since, channel, event, control_id, received = row
    behind = _behind(connection, seq, destination, lanes, MOST_WAITING + 1)
    mine = set(orjson.loads(lanes))
    theirs = connection.execute(LANES_OF, (orjson.dumps(behind).decode(), destination)).fetchall()
    patients = mine.union(*(orjson.loads(text) for (text,) in theirs))
    return Held(
        seq, destination, tuple(sorted(mine)), reason, optional_from_micros(since), channel, event, control_id,
        from_micros(received), min(len(behind), MOST_WAITING), len(patients), len(behind) > MOST_WAITING,
    )  # fmt: skip


def _behind(connection: Connection, seq: int, destination: str, lanes: str, most: int) -> list[int]:
    return [one for (one,) in connection.execute(BEHIND, (lanes, destination, seq, most)).fetchall()]


@contextmanager
def _reading(folder: Path) -> Iterator[Connection]:
    connection = open_reader(folder)
    try:
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()
