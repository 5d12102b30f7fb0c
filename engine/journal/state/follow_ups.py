"""Follow-ups: what a destination is to be asked for once an entry was delivered there, apart from all lanes.

One is promised in the commit that ends the delivery, and stays until its outcome is written: a kill in between means
that it is asked again, never that it is forgotten. Of a patient one of a kind is out at a time, the oldest first. Each
function works on any connection of the journal; hand `settle` to `Journal.write`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from engine.database.connection import Connection, by_name, json_list
from engine.journal.entry import FollowUpKind, Settlement
from engine.journal.moment import from_micros, optional_from_micros, optional_micros, to_micros
from engine.journal.state.counters import NOTE

ASKED_ALREADY: Final = "lookup-asked-already"

# Promise a follow-up; an edited message is a replay of the one that it was made from, which never asks for one.
PROMISE: Final = """
INSERT INTO follow_up (destination, kind, seq, patient, visit, state, due_at)
SELECT ?, ?, seq, ?, ?, 'waiting', ? FROM entry WHERE seq = ? AND parent IS NULL ON CONFLICT DO NOTHING
"""
# A pending follow-up of a record that was merged away meanwhile is asked for by the survivor's.
FOLLOW: Final = "UPDATE follow_up SET patient = ? WHERE destination = ? AND patient = ? AND due_at IS NOT NULL"
# Whether none of the same kind is ahead of a patient's.
_IS_FIRST: Final = """
NOT EXISTS (SELECT 1 FROM follow_up AS o
  WHERE o.destination = ?1 AND o.patient = f.patient AND o.kind = ?2 AND o.seq < f.seq AND o.due_at IS NOT NULL)
"""
# Those that may be asked for now, the longest due first: of each patient the oldest.
DUE: Final = f"""
SELECT f.seq, f.patient, f.visit, f.tries, e.channel, e.event, e.received_at, e.event_at, e.sha256
FROM follow_up AS f JOIN entry AS e ON e.seq = f.seq
WHERE f.destination = ?1 AND f.kind = ?2 AND f.due_at <= ?3 AND {_IS_FIRST}
ORDER BY f.due_at LIMIT ?4
"""  # noqa: S608 - constants
# When the next of a destination falls due: what waits behind an older one of its patient is not the next, due or not.
NEXT: Final = f"""
SELECT f.due_at FROM follow_up AS f
WHERE f.destination = ?1 AND f.kind = ?2 AND f.due_at IS NOT NULL AND {_IS_FIRST}
ORDER BY f.due_at LIMIT 1
"""  # noqa: S608 - constants
# The handle under which a patient was asked for not long ago.
RECENT: Final = """
SELECT handle FROM follow_up WHERE destination = ? AND patient = ? AND kind = 'lookup' AND state = 'accepted'
AND reason <> ? AND settled_at >= ? ORDER BY seq DESC LIMIT 1
"""
# How one ended, or when it is tried again.
SETTLE: Final = """
UPDATE follow_up SET state = ?, reason = ?, codes = ?, handle = ?, tries = tries + ?, due_at = ?, settled_at = ?
WHERE seq = ? AND destination = ? AND kind = ? AND due_at IS NOT NULL
"""


class FollowUpState(StrEnum):
    """The state of a follow-up: ACCEPTED by the server, REFUSED by it, or GIVEN_UP by the engine."""

    WAITING = "waiting"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True)
class DueRequest:
    """A follow-up to ask for now: of which records, because of which event of a channel; `digest` is the message's."""

    seq: int
    patient: str
    visit: str
    tries: int
    channel: str
    event: str
    received_at: datetime
    event_at: datetime | None
    digest: bytes

    @property
    def began(self) -> datetime:
        """When the event happened, or where it does not say, when the engine heard of it."""
        return self.event_at or self.received_at


@dataclass(frozen=True, slots=True)
class FollowUpEnd:
    """How a follow-up ended at `at`, or, while it waits, when it is tried again; `asked` is False where nobody was."""

    state: FollowUpState
    reason: str
    at: datetime
    codes: tuple[str, ...] = ()
    handle: str = ""
    retry_at: datetime | None = None
    asked: bool = True


def promise(connection: Connection, settlements: Sequence[Settlement]) -> None:
    """Promise the follow-ups that settlements ask for, and let others follow their merges; in their transaction."""
    rows = [
        (settlement.destination, each.kind, each.patient, each.visit, to_micros(settlement.at), settlement.seq)
        for settlement in settlements
        for each in settlement.follow_ups
    ]
    if rows:
        connection.executemany(PROMISE, rows)
    merges = [
        (f"Patient/{known.survivor}", known.destination, f"Patient/{known.logical_id}")
        for settlement in settlements
        for known in settlement.known
        if known.survivor
    ]
    if merges:
        connection.executemany(FOLLOW, merges)


def due(
    connection: Connection, destination: str, kind: FollowUpKind, now: datetime, most: int
) -> tuple[DueRequest, ...]:
    """Return at most `most` follow-ups of a destination that may be asked for now, each of another patient."""
    rows = by_name(connection, DUE, (destination, kind, to_micros(now), most)).fetchall()
    return tuple(
        DueRequest(
            *(row["seq"], row["patient"], row["visit"], row["tries"], row["channel"], row["event"]),
            from_micros(row["received_at"]),
            optional_from_micros(row["event_at"]),
            bytes(row["sha256"]),
        )
        for row in rows
    )


def next_due(connection: Connection, destination: str, kind: FollowUpKind) -> datetime | None:
    """Return when the next follow-up of a destination falls due; None where none waits."""
    found = connection.execute(NEXT, (destination, kind)).fetchone()
    return None if found is None else from_micros(found[0])


def recent(connection: Connection, destination: str, patient: str, now: datetime, within: timedelta) -> str | None:
    """Return the handle under which a patient was asked for within some time, None where nobody did."""
    values = (destination, patient, ASKED_ALREADY, to_micros(now - within))
    row = connection.execute(RECENT, values).fetchone()
    return None if row is None else str(row[0])


def settle(connection: Connection, destination: str, kind: FollowUpKind, seq: int, end: FollowUpEnd) -> None:
    """Write how a follow-up ended, or when it is tried again; the entry is found by the reason of one that failed."""
    settled_at = None if end.retry_at else to_micros(end.at)
    values = (end.state, end.reason, json_list(end.codes), end.handle, int(end.asked), optional_micros(end.retry_at))
    connection.execute(SETTLE, (*values, settled_at, seq, destination, kind))
    if end.state in {FollowUpState.REFUSED, FollowUpState.GIVEN_UP}:
        connection.execute(NOTE, (end.reason, seq))
