"""Look-ups: what a destination is to be asked for once an entry was delivered there, apart from all lanes.

One is promised in the commit that ends the delivery, and stays until its outcome is written: a kill in between means
that it is asked again, never that it is forgotten. Of a patient one is out at a time, the oldest first. Each function
works on any connection of the journal; hand `settle` to `Journal.write`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from engine.journal.entry import Settlement
from engine.journal.moment import from_micros, optional_micros, to_micros
from engine.journal.state.counters import NOTE
from engine.sqlite import Connection, by_name, json_list

ASKED_ALREADY: Final = "lookup-asked-already"

# Promise a look-up; an edited message is a replay of the one that it was made from, which never asks for one.
PROMISE: Final = """
INSERT INTO lookup (destination, seq, patient, state, due_at)
SELECT ?, seq, ?, 'waiting', ? FROM entry WHERE seq = ? AND parent IS NULL ON CONFLICT DO NOTHING
"""
# Whose record was merged away meanwhile is looked up by the survivor's.
FOLLOW: Final = "UPDATE lookup SET patient = ? WHERE destination = ? AND patient = ? AND due_at IS NOT NULL"
# Those that may be asked for now, the longest due first: of each patient the oldest.
DUE: Final = """
SELECT l.seq, l.patient, l.tries, e.channel, e.event, COALESCE(e.event_at, e.received_at) AS began
FROM lookup AS l JOIN entry AS e ON e.seq = l.seq
WHERE l.destination = ?1 AND l.due_at <= ?2 AND NOT EXISTS (
  SELECT 1 FROM lookup AS o
  WHERE o.destination = ?1 AND o.patient = l.patient AND o.seq < l.seq AND o.due_at IS NOT NULL)
ORDER BY l.due_at LIMIT ?3
"""
# When the next of a destination falls due.
NEXT: Final = "SELECT MIN(due_at) FROM lookup WHERE destination = ? AND due_at IS NOT NULL"
# The handle under which a patient was asked for not long ago.
RECENT: Final = """
SELECT handle FROM lookup WHERE destination = ? AND patient = ? AND state = 'accepted' AND reason <> ?
AND settled_at >= ? ORDER BY seq DESC LIMIT 1
"""
# How one ended, or when it is tried again.
SETTLE: Final = """
UPDATE lookup SET state = ?, reason = ?, codes = ?, handle = ?, tries = tries + ?, due_at = ?, settled_at = ?
WHERE seq = ? AND destination = ? AND due_at IS NOT NULL
"""


class LookUpState(StrEnum):
    """Where a look-up stands: ACCEPTED by the server, which works on, REFUSED by it, or GIVEN_UP by the engine."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True)
class Due:
    """A look-up to ask for now: of which record, because of which event of a channel, that happened at `began`."""

    seq: int
    patient: str
    tries: int
    channel: str
    event: str
    began: datetime


@dataclass(frozen=True, slots=True)
class LookUpEnd:
    """How a look-up ended at `at`, or, while it waits, when it is tried again; `asked` is False where nobody was."""

    state: LookUpState
    reason: str
    at: datetime
    codes: tuple[str, ...] = ()
    handle: str = ""
    retry_at: datetime | None = None
    asked: bool = True


def promise(connection: Connection, settlements: Sequence[Settlement]) -> None:
    """Promise the look-ups that settlements ask for, and let others follow their merges; in their transaction."""
    rows = [(one.destination, one.lookup, to_micros(one.at), one.seq) for one in settlements if one.lookup]
    if rows:
        connection.executemany(PROMISE, rows)
    merges = [
        (f"Patient/{known.survivor}", known.destination, f"Patient/{known.logical_id}")
        for one in settlements
        for known in one.known
        if known.survivor
    ]
    if merges:
        connection.executemany(FOLLOW, merges)


def due(connection: Connection, destination: str, now: datetime, most: int) -> tuple[Due, ...]:
    """Return at most so many look-ups of a destination that may be asked for now, each of another patient."""
    rows = by_name(connection, DUE, (destination, to_micros(now), most)).fetchall()
    return tuple(
        Due(row["seq"], row["patient"], row["tries"], row["channel"], row["event"], from_micros(row["began"]))
        for row in rows
    )


def next_due(connection: Connection, destination: str) -> datetime | None:
    """Return when the next look-up of a destination falls due; None where none waits."""
    found = connection.execute(NEXT, (destination,)).fetchone()[0]
    return None if found is None else from_micros(found)


def recent(connection: Connection, destination: str, patient: str, now: datetime, within: timedelta) -> str | None:
    """Return the handle under which a patient was asked for within some time, None where nobody did."""
    values = (destination, patient, ASKED_ALREADY, to_micros(now - within))
    row = connection.execute(RECENT, values).fetchone()
    return None if row is None else str(row[0])


def settle(connection: Connection, destination: str, seq: int, end: LookUpEnd) -> None:
    """Write how a look-up ended, or when it is tried again; the entry is found by the reason of one that failed."""
    settled_at = None if end.retry_at else to_micros(end.at)
    values = (end.state, end.reason, json_list(end.codes), end.handle, int(end.asked), optional_micros(end.retry_at))
    connection.execute(SETTLE, (*values, settled_at, seq, destination))
    if end.state in {LookUpState.REFUSED, LookUpState.GIVEN_UP}:
        connection.execute(NOTE, (end.reason, seq))
