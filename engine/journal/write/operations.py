"""What operators do with entries: replay, release, retry, discard; each within the order of the lanes."""

from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.journal.claim.claiming import Claims
from engine.journal.claim.lanes import DEMOTE, ENTER, Lanes
from engine.journal.entry import UNFINISHED, NewEntry, Recorded, State, check_move
from engine.journal.file.sealing import Sealing, edit_at
from engine.journal.moment import optional_micros
from engine.journal.write.recording import NAMED_AGAIN, Recording
from engine.journal.write.settling import IS_BLOCKED, leave
from engine.sqlite import Connection, by_name

# Where the door left an entry, and whether its bytes are still there.
ENTRY: Final = """
SELECT e.state, e.patients, e.reason, e.mapping, EXISTS (SELECT 1 FROM payload AS p WHERE p.seq = e.seq) AS whole
FROM entry AS e WHERE e.seq = ?
"""
# Where an entry stands at each destination.
DELIVERIES: Final = """
SELECT destination, state, lanes, reason, mapping, due_at FROM delivery WHERE seq = ? ORDER BY destination
"""
# Whether something newer than an entry was applied in these lanes (a JSON list).
NEWER: Final = """
SELECT EXISTS (SELECT 1 FROM json_each(?) AS mine CROSS JOIN applied AS a
  WHERE a.destination = ? AND a.lane = mine.value AND a.seq > ?)
"""
# The lanes of identity keys (a JSON list).
LANES_OF_KEYS: Final = "SELECT DISTINCT l.lane FROM json_each(?) AS mine JOIN lane_of AS l ON l.key = mine.value"
# Let a delivery run again, in its old place.
AGAIN: Final = """
UPDATE delivery SET state = ?, reason = '', due_at = NULL, lanes = ?, replay = ?, forced = ?, settled_by = ?
WHERE seq = ? AND destination = ?
"""
# Give an entry to a destination that never had it.
GIVE: Final = """
INSERT INTO delivery (state, lanes, replay, forced, settled_by, seq, destination) VALUES (?, ?, 1, ?, ?, ?, ?)
"""
# Try at once what waits for its next try.
DUE_NOW: Final = "UPDATE delivery SET due_at = NULL, settled_by = ? WHERE seq = ? AND destination = ?"
# End a delivery without delivering it.
DISCARD: Final = """
UPDATE delivery SET state = 'discarded', reason = ?, settled_by = ?, due_at = NULL WHERE seq = ? AND destination = ?
"""
# End an entry that the door held.
DISCARD_AT_DOOR: Final = "UPDATE entry SET state = 'discarded', reason = ?, settled_by = ? WHERE seq = ?"
# Take in what the door refused, held or filtered, as it was judged anew.
ADMIT: Final = """
UPDATE entry SET state = 'received', reason = '', flags = ?, event_at = ?, visit = ?, patients = ?, mapping = ?,
  settled_by = ? WHERE seq = ?
"""
# Who let a delivery run again, and how it stood before.
NOTE: Final = """
INSERT INTO replayed (seq, destination, act, by, at, run, forced, state, reason, mapping)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# What an entry was edited from, by whom, and what differs.
EDIT: Final = "INSERT INTO edit (seq, parent, by, at, changes) VALUES (?, ?, ?, ?, ?)"

# What was held for one of these is held again unless somebody says that it may go on all the same.
LET_GO: Final = frozenset({"stale", "merge-limit"})
JUDGED_ANEW: Final = "judged-anew"


class Asked(NamedTuple):
    """Who asked for an operation and when, in which bulk run (0 for none), and whether older data may go over newer.

    `bound`: the newest entry when a run began, 0 outside of one; what came in later is never gone over.
    """

    by: str = ""
    at: datetime | None = None
    run: int = 0
    force: bool = False
    bound: int = 0


class _Delivery(NamedTuple):
    destination: str
    state: State
    lanes: list[int]
    reason: str
    mapping: str
    due: bool


class _Entry(NamedTuple):
    state: State
    patients: str
    reason: str
    mapping: str
    whole: bool


class Operations:
    """Carries out operators' operations on entries; lives in the writer thread, inside its transactions.

    An operation that raises has changed nothing: everything is checked before the first write.
    """

    def __init__(
        self,
        connection: Connection,
        lanes: Lanes,
        claims: Claims,
        recording: Recording,
        sealing: Sealing | None = None,
    ) -> None:
        self._connection = connection
        self._sealing = sealing
        self._lanes = lanes
        self._claims = claims
        self._recording = recording

    def replay(self, seq: int, destinations: tuple[str, ...], asked: Asked, give: tuple[str, ...] = ()) -> int:
        """Deliver an entry again in its old place; return at how many destinations.

        All where it is at its end or held, if none is named. `give`: destinations to which it is given where it was
        not before. ForbiddenMoveError: it is under way everywhere or was never given to such a destination, or
        something newer was applied to a lane of it without `force`. UnknownEntryError: no such entry.
        """
        entry = self._entry(seq)
        rows = self._deliveries(seq, entry)
        given = {row.destination for row in rows}
        fresh = [name for name in destinations if name in give and name not in given]
        if rows and fresh and all(row.state in {State.DISCARDED, State.FILTERED} for row in rows):
            raise ForbiddenMoveError(
                f"entry {seq} was {rows[0].state} elsewhere: it is not for other destinations either"
            )
        named = [row for row in rows if row.destination in destinations]
        if not destinations:
            named = [row for row in rows if row.state not in UNFINISHED or row.state is State.HELD] or rows
        if not named and not (rows and fresh):
            raise ForbiddenMoveError(f"entry {seq} was not given to any such destination: send its message anew")
        newer = [self._check(seq, row, asked) for row in named]
        lanes = list(self._lanes.of(entry.patients))
        over = [self._overtakes(seq, name, lanes, asked) for name in fresh]
        for row, forced in zip(named, newer, strict=True):
            self._again(seq, row, asked, "replay", replay=True, forced=forced)
        for name, forced in zip(fresh, over, strict=True):
            self._give(seq, name, lanes, asked, forced=forced)
            self._note(seq, name, "given", asked, forced=forced)
        return len(named) + len(fresh)

    def release(self, seq: int, destinations: tuple[str, ...], asked: Asked) -> int:
        """Let what is held be tried again; return at how many destinations.

        ForbiddenMoveError: nothing is held, or the lane went on (`on_held: continue`) and something newer was applied.
        """
        rows = self._deliveries(seq, self._entry(seq))
        held = [row for row in rows if row.state is State.HELD and row.destination in (destinations or row.destination)]
        if not held:
            raise ForbiddenMoveError(f"entry {seq} is not held")
        self._release(seq, held, asked)
        return len(held)

    def retry(self, seq: int, asked: Asked) -> int:
        """Try at once what waits for its next try, or is held; ForbiddenMoveError where there is no such thing."""
        rows = self._deliveries(seq, self._entry(seq))
        held = [row for row in rows if row.state is State.HELD]
        due = [row for row in rows if row.state is State.RECEIVED and row.due]
        if not held and not due:
            raise ForbiddenMoveError(f"entry {seq} neither waits for its next try nor is held")
        self._release(seq, held, asked)
        for row in due:
            self._connection.execute(DUE_NOW, (asked.by, seq, row.destination))
        return len(held) + len(due)

    def discard(self, seq: int, reason: str, *, by: str) -> int:
        """End what is unfinished of an entry, for good; return how many others may run because of it.

        ForbiddenMoveError: nothing is unfinished, or it is being delivered at this moment.
        """
        entry = self._entry(seq)
        if entry.state is State.HELD:
            self._connection.execute(DISCARD_AT_DOOR, (reason, by, seq))
            return 0
        rows = [row for row in self._rows(seq) if row.state in UNFINISHED]
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} has nothing unfinished to discard")
        runnable = 0
        for row in rows:
            check_move(row.state, State.DISCARDED)
            self._connection.execute(DISCARD, (reason, by, seq, row.destination))
            runnable += leave(self._connection, seq, row.destination, row.lanes)
        return runnable

    def admit(self, seq: int, judged: NewEntry, asked: Asked) -> int:
        """Take in what the door refused, held or filtered, in its old place, as it was judged anew.

        ForbiddenMoveError: it has deliveries, or something newer was applied for one of its patients without `force`.
        """
        entry = self._entry(seq)
        if entry.state is State.RECEIVED or self._rows(seq):
            raise ForbiddenMoveError(f"entry {seq} was taken in already: replay it")
        forced = self._overtaken(seq, judged, asked)
        placed = self._lanes.place(judged.patients, unite=judged.unite, run=True)
        flags = tuple(dict.fromkeys((*judged.flags, JUDGED_ANEW)))
        self._connection.execute(
            ADMIT,
            (
                _json(flags), optional_micros(judged.event_at), self._name(judged.visit), _json(placed.identities),
                judged.mapping, asked.by, seq,
            ),
        )  # fmt: skip
        self._connection.executemany(NAMED_AGAIN, [(identity, seq) for identity in placed.identities])
        for name in judged.destinations:
            self._give(seq, name, list(placed.lanes), asked, forced=forced)
        self._note(seq, "", JUDGED_ANEW, asked, entry, forced=forced)
        return len(judged.destinations)

    def edit(self, seq: int, edited: NewEntry, changes: bytes, asked: Asked, discard: str = "") -> Recorded:
        """Record what an entry was edited to as an entry of its own, behind all that is there.

        `changes`: what differs, as JSON. `discard`: why the original ends, where it is unfinished; empty leaves it.
        ForbiddenMoveError: something newer was applied for one of its patients without `force`; the original is being
        delivered at this moment and is to be discarded.
        """
        state = self._entry(seq).state
        unfinished = state is State.HELD or any(row.state in UNFINISHED for row in self._rows(seq))
        self._overtaken(seq, edited, asked)
        if discard and unfinished:
            self.discard(seq, discard, by=asked.by)
        recorded = self._recording.record([edited])[0]
        kept: str | bytes = changes.decode()
        if self._sealing is not None:
            kept = self._sealing.seal(changes, edit_at(recorded.seq))
        self._connection.execute(EDIT, (recorded.seq, seq, asked.by, optional_micros(asked.at), kept))
        return recorded

    def _name(self, visit: str) -> str:
        return visit if self._sealing is None else self._sealing.name(visit)

    def is_busy(self, seq: int) -> bool:
        """Say whether something newer of an entry's patients is being delivered at this moment, wherever that is."""
        lanes = list(self._lanes.of(self._entry(seq).patients))
        return any(self._claims.goes_ahead(seq, row.destination, lanes) for row in self._rows(seq))

    def _release(self, seq: int, held: list[_Delivery], asked: Asked) -> None:
        newer = [self._check(seq, row, asked) or row.reason in LET_GO for row in held]
        for row, forced in zip(held, newer, strict=True):
            self._again(seq, row, asked, "release", replay=False, forced=forced)

    def _check(self, seq: int, row: _Delivery, asked: Asked) -> bool:
        """Say whether something newer was applied; ForbiddenMoveError where the delivery may not run again."""
        if row.state in UNFINISHED and row.state is not State.HELD:
            raise ForbiddenMoveError(f"entry {seq} is under way to {row.destination} already: wait for its end")
        if row.state is State.FILTERED:
            raise ForbiddenMoveError(f"entry {seq} ended filtered ({row.reason}) and is never delivered")
        check_move(row.state, State.RECEIVED)
        return self._overtakes(seq, row.destination, row.lanes, asked)

    def _overtakes(self, seq: int, destination: str, lanes: list[int], asked: Asked) -> bool:
        """Say whether something newer was applied, or is being so; ForbiddenMoveError where that is not gone over."""
        text, newer_than = orjson.dumps(lanes).decode(), max(seq, asked.bound) if asked.force else seq
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

    def _overtaken(self, seq: int, entry: NewEntry, asked: Asked) -> bool:
        identities = self._lanes.place(entry.patients, unite=False, run=False).identities
        lanes = list(self._lanes.of(_json(identities)))
        over = [self._overtakes(seq, name, lanes, asked) for name in entry.destinations]
        return any(over)

    def _again(self, seq: int, row: _Delivery, asked: Asked, act: str, *, replay: bool, forced: bool) -> None:
        text = orjson.dumps(row.lanes).decode()
        after = self._enter(seq, row.destination, row.lanes, text)
        values = (after.value, text, int(replay), int(forced), asked.by, seq, row.destination)
        self._connection.execute(AGAIN, values)
        self._demote(row.destination, row.lanes)
        self._note(seq, row.destination, act, asked, row, forced=forced)

    def _give(self, seq: int, destination: str, lanes: list[int], asked: Asked, *, forced: bool) -> None:
        text = orjson.dumps(lanes).decode()
        after = self._enter(seq, destination, lanes, text)
        self._connection.execute(GIVE, (after.value, text, int(forced), asked.by, seq, destination))
        self._demote(destination, lanes)

    def _enter(self, seq: int, destination: str, lanes: list[int], text: str) -> State:
        blocked = self._connection.execute(IS_BLOCKED, (text, destination, seq)).fetchone()[0]
        for lane in lanes:
            self._connection.execute(ENTER, (destination, lane, seq))
        return State.WAITING if blocked else State.RECEIVED

    def _demote(self, destination: str, lanes: list[int]) -> None:
        for lane in lanes:
            self._connection.execute(DEMOTE, (destination, destination, lane, destination, lane))

    def _note(
        self, seq: int, destination: str, act: str, asked: Asked, before: _Delivery | _Entry | None = None, *,
        forced: bool,
    ) -> None:  # fmt: skip
        state, reason, mapping = (before.state.value, before.reason, before.mapping) if before else ("", "", "")
        at = optional_micros(asked.at)
        values = (seq, destination, act, asked.by, at, asked.run, int(forced), state, reason, mapping)
        self._connection.execute(NOTE, values)

    def _deliveries(self, seq: int, entry: _Entry) -> list[_Delivery]:
        """Return the deliveries with the lanes as they are now; the old ones may have been united since."""
        rows = self._rows(seq)
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} was never taken in: `messages replay` judges it anew")
        if not entry.whole:
            raise ForbiddenMoveError(f"entry {seq} has no message any more: retention removed it")
        lanes = list(self._lanes.of(entry.patients))
        return [row._replace(lanes=lanes) for row in rows]

    def _rows(self, seq: int) -> list[_Delivery]:
        # What is out is out, also where a rollback took back that the file says so.
        return [
            _Delivery(
                row["destination"],
                State.CLAIMED if self._claims.is_out(seq, row["destination"]) else State(row["state"]),
                orjson.loads(row["lanes"]),
                row["reason"],
                row["mapping"],
                row["due_at"] is not None,
            )
            for row in by_name(self._connection, DELIVERIES, (seq,))
        ]

    def _entry(self, seq: int) -> _Entry:
        row = by_name(self._connection, ENTRY, (seq,)).fetchone()
        if row is None:
            raise UnknownEntryError(f"there is no entry {seq}")
        return _Entry(**dict(row) | {"state": State(row["state"]), "whole": bool(row["whole"])})


def overtaken_at(
    connection: Connection,
    sealing: Sealing | None,
    seq: int,
    patients: tuple[tuple[str, ...], ...],
    destinations: tuple[str, ...],
) -> frozenset[str]:
    """Return where something newer than an entry was applied for one of these patients."""
    named = [key for group in patients for key in group]
    keys = orjson.dumps([key if sealing is None else sealing.name(key) for key in named]).decode()
    lanes = orjson.dumps([lane for (lane,) in connection.execute(LANES_OF_KEYS, (keys,)).fetchall()]).decode()
    return frozenset(name for name in destinations if connection.execute(NEWER, (lanes, name, seq)).fetchone()[0])


def _json(values: tuple[Any, ...]) -> str:
    return orjson.dumps(values).decode()
