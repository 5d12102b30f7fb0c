"""The state of an entry before an operator touches it: at intake, at its destinations, against what was applied."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

import orjson

from engine.database.connection import Connection, by_name, json_list
from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.journal.claim.claiming import Claims
from engine.journal.claim.lanes import Lanes
from engine.journal.entry import FAILED, FAILED_STATES, FEED, UNFINISHED, NewEntry, State, check_move
from engine.journal.file.sealing import Sealing

# A run keeps that it was about a patient, not about whom; nor what somebody wrote as a reason.
NAMED: Final = "named"

# Where the door left an entry, and whether its bytes are still there.
ENTRY: Final = """
SELECT e.state, e.patients, e.reason, e.mapping, e.flags,
  EXISTS (SELECT 1 FROM payload AS p WHERE p.seq = e.seq) AS whole
FROM entry AS e WHERE e.seq = ?
"""
# The state of an entry at each destination.
DELIVERIES: Final = """
SELECT destination, state, lanes, reason, mapping, due_at, notes FROM delivery WHERE seq = ? ORDER BY destination
"""
# Whether something newer than an entry was applied in these lanes (a JSON list).
NEWER: Final = """
SELECT EXISTS (SELECT 1 FROM json_each(?) AS mine WHERE EXISTS (
  SELECT 1 FROM applied AS a WHERE a.destination = ? AND a.lane = mine.value AND a.seq > ? LIMIT 1 OFFSET 0))
"""
# The lanes of identity keys (a JSON list).
LANES_OF_KEYS: Final = "SELECT DISTINCT l.lane FROM json_each(?) AS mine JOIN lane_of AS l ON l.key = mine.atom"


class OperationRequest(NamedTuple):
    """An operation that a person or a bulk run asks for.

    `run` is 0 outside of a bulk run. `force` lets older data overwrite newer data. `bound` is the newest entry when the
    run began: data of later entries is never overwritten. `in_feed_order`: destinations that get entries in the order
    in which they came in.
    """

    by: str = ""
    at: datetime | None = None
    run: int = 0
    force: bool = False
    bound: int = 0
    in_feed_order: frozenset[str] = frozenset()


class DeliveryState(NamedTuple):
    """The state of an entry at a destination; `due`: it waits for its next try."""

    destination: str
    state: State
    lanes: list[int]
    reason: str
    mapping: str
    due: bool
    notes: tuple[str, ...] = ()


class EntryState(NamedTuple):
    """Where the door left an entry, its identities and flags as JSON, and whether its bytes are still there."""

    state: State
    patients: str
    reason: str
    mapping: str
    flags: str
    whole: bool


class EntryLookup:
    """Looks up entries and deliveries, and checks whether an operation may run; changes nothing."""

    def __init__(self, connection: Connection, lanes: Lanes, claims: Claims) -> None:
        self._connection = connection
        self._lanes = lanes
        self._claims = claims

    def entry(self, seq: int) -> EntryState:
        """Return where the door left an entry; UnknownEntryError where there is none."""
        row = by_name(self._connection, ENTRY, (seq,)).fetchone()
        if row is None:
            raise UnknownEntryError(f"there is no entry {seq}")
        return EntryState(**dict(row) | {"state": State(row["state"]), "whole": bool(row["whole"])})

    def deliveries(
        self, seq: int, entry: EntryState, in_feed_order: frozenset[str] = frozenset()
    ) -> list[DeliveryState]:
        """Return the deliveries with the lanes as they are now; the old ones may have been united since.

        `in_feed_order`: destinations that get entries in the order in which they came in, whatever they did before.
        ForbiddenMoveError where it was never taken in, or its message is gone.
        """
        rows = self.rows(seq)
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} was never taken in: `messages replay` judges it anew")
        if not entry.whole:
            raise ForbiddenMoveError(f"entry {seq} has no message any more: retention removed it")
        lanes = list(self._lanes.of(entry.patients))
        ordered = in_feed_order | {row.destination for row in rows if FEED in row.lanes}
        return [row._replace(lanes=[FEED, *lanes] if row.destination in ordered else lanes) for row in rows]

    def rows(self, seq: int) -> list[DeliveryState]:
        """Return the deliveries of an entry; what is out is out, also where a rollback took back that it is."""
        return [
            DeliveryState(
                row["destination"],
                State.CLAIMED if self._claims.is_out(seq, row["destination"]) else State(row["state"]),
                orjson.loads(row["lanes"]),
                row["reason"],
                row["mapping"],
                row["due_at"] is not None,
                tuple(orjson.loads(row["notes"])),
            )
            for row in by_name(self._connection, DELIVERIES, (seq,))
        ]

    def is_busy(self, seq: int) -> bool:
        """Say whether something newer of an entry's patients is being delivered at this moment, wherever that is."""
        lanes = list(self._lanes.of(self.entry(seq).patients))
        return any(self._claims.goes_ahead(seq, row.destination, lanes) for row in self.rows(seq))

    def check(self, seq: int, row: DeliveryState, asked: OperationRequest) -> bool:
        """Say whether something newer was applied; ForbiddenMoveError where the delivery may not run again."""
        if row.state in UNFINISHED and row.state is not State.HELD:
            raise ForbiddenMoveError(f"entry {seq} is under way to {row.destination} already: wait for its end")
        check_move(row.state, State.RECEIVED)
        return self.overtakes(seq, row.destination, row.lanes, asked)

    def overtakes(self, seq: int, destination: str, lanes: list[int], asked: OperationRequest) -> bool:
        """Say whether something newer was applied, or is being so; ForbiddenMoveError where that is not gone over."""
        lanes = [lane for lane in lanes if lane != FEED]
        text, newer_than = json_list(lanes), max(seq, asked.bound) if asked.force else seq
        applied = self._connection.execute(NEWER, (text, destination, newer_than)).fetchone()[0]
        if applied and not asked.force:
            raise ForbiddenMoveError(
                f"entry {seq}: something newer was applied for this patient at {destination}; use --force to apply the "
                "older one all the same"
            )
        if applied and asked.bound:
            raise ForbiddenMoveError(
                f"entry {seq}: something newer was applied for this patient at {destination} since the run began"
            )
        if not asked.force and self._claims.goes_ahead(seq, destination, lanes):
            raise ForbiddenMoveError(
                f"entry {seq}: something newer is being delivered for this patient to {destination}; wait for its end"
            )
        return bool(self._connection.execute(NEWER, (text, destination, seq)).fetchone()[0])

    def reaching(self, entry: NewEntry) -> NewEntry:
        """Return a message with all destinations to which it goes: also those that have one of its patients."""
        if not entry.where_known:
            return entry
        identities = self._lanes.place(entry.patients, unite=False, run=False).identities
        there = self._lanes.there(self._lanes.of(json_list(identities)), entry.where_known)
        return replace(entry, destinations=(*entry.destinations, *there), where_known=())

    def overtaken(self, seq: int, entry: NewEntry, asked: OperationRequest) -> bool:
        """Say the same of a message in the place of an entry, at all of its destinations."""
        identities = self._lanes.place(entry.patients, unite=False, run=False).identities
        lanes = list(self._lanes.of(json_list(identities)))
        over = [self.overtakes(seq, name, lanes, asked) for name in entry.destinations]
        return any(over)


def meant_by(asked: Mapping[str, object]) -> Callable[[DeliveryState], bool] | None:
    """Return which deliveries a bulk replay is about: those in the state, and for the reason, that was asked for.

    Without a state that is all but what was filtered; None: every one, as the entries were named.
    """
    state, reason = asked.get("state"), asked.get("reason")
    if "entries" in asked:
        return None
    if not state:
        return lambda row: row.state is not State.FILTERED
    if state == FAILED:
        return lambda row: row.state in FAILED_STATES and reason in {None, NAMED, row.reason}
    return lambda row: row.state == state and (row.state is not State.FILTERED or reason in {None, NAMED, row.reason})


def overtaken_at(
    connection: Connection,
    sealing: Sealing | None,
    seq: int,
    patients: tuple[tuple[str, ...], ...],
    destinations: tuple[str, ...],
) -> frozenset[str]:
    """Return where something newer than an entry was applied for one of these patients."""
    named = [key for group in patients for key in group]
    keys = json_list([key if sealing is None else sealing.name(key) for key in named])
    lanes = json_list([lane for (lane,) in connection.execute(LANES_OF_KEYS, (keys,)).fetchall()])
    return frozenset(name for name in destinations if connection.execute(NEWER, (lanes, name, seq)).fetchone()[0])
