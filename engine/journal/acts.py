"""What operators do with entries: replay, release, discard; each within the order of the lanes."""

from typing import Any, Final

import orjson

from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.journal.claiming import Claims
from engine.journal.database import Connection
from engine.journal.entry import UNFINISHED, State, check_move
from engine.journal.lanes import DEMOTE, ENTER, Lanes
from engine.journal.settling import IS_BLOCKED, leave

ENTRY: Final = "SELECT state, patients FROM entry WHERE seq = ?"
DELIVERIES: Final = "SELECT destination, state, lanes FROM delivery WHERE seq = ? ORDER BY destination"
NEWER: Final = """
SELECT EXISTS (SELECT 1 FROM json_each(?) AS mine CROSS JOIN applied AS a
  WHERE a.destination = ? AND a.lane = mine.value AND a.seq > ?)
"""
AGAIN: Final = """
UPDATE delivery SET state = ?, reason = '', due_at = NULL, lanes = ?, replay = ?, forced = ?, settled_by = ?
WHERE seq = ? AND destination = ?
"""
DISCARD: Final = """
UPDATE delivery SET state = 'discarded', reason = ?, settled_by = ?, due_at = NULL WHERE seq = ? AND destination = ?
"""
DISCARD_AT_DOOR: Final = "UPDATE entry SET state = 'discarded', reason = ?, settled_by = ? WHERE seq = ?"


_Delivery = tuple[str, State, list[int]]


class Acts:
    """Carries out operators' acts; lives in the writer thread, inside its transactions."""

    def __init__(self, connection: Connection, lanes: Lanes, claims: Claims) -> None:
        self._connection = connection
        self._lanes = lanes
        self._claims = claims

    def replay(self, seq: int, destinations: tuple[str, ...], *, force: bool, by: str) -> int:
        """Deliver an entry again in its old place; return at how many destinations.

        All where it is at its end or held, if none is named. ForbiddenMoveError: it is under way everywhere or was
        never given to such a destination, or something newer was applied to a lane of it and `force` is not set.
        UnknownEntryError: no such entry.
        """
        rows = self._deliveries(seq, destinations)
        if not destinations:
            rows = [row for row in rows if row[1] not in UNFINISHED or row[1] is State.HELD] or rows
        for row in rows:
            self._again(seq, row, replay=True, force=force, by=by)
        return len(rows)

    def release(self, seq: int, destinations: tuple[str, ...], *, force: bool, by: str) -> int:
        """Let what is held be tried again; return at how many destinations.

        ForbiddenMoveError: nothing is held, or the lane went on (`on_held: continue`) and something newer was applied.
        """
        rows = [row for row in self._deliveries(seq, destinations) if row[1] is State.HELD]
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} is not held")
        for row in rows:
            self._again(seq, row, replay=False, force=force, by=by)
        return len(rows)

    def discard(self, seq: int, reason: str, *, by: str) -> int:
        """End what is unfinished of an entry, for good; return how many others may run because of it.

        ForbiddenMoveError: nothing is unfinished, or it is being delivered at this moment.
        """
        entry = self._entry(seq)
        if entry[0] is State.HELD:
            self._connection.execute(DISCARD_AT_DOOR, (reason, by, seq))
            return 0
        rows = [row for row in self._rows(seq) if row[1] in UNFINISHED]
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} has nothing unfinished to discard")
        runnable = 0
        for destination, state, lanes in rows:
            check_move(state, State.DISCARDED)
            self._connection.execute(DISCARD, (reason, by, seq, destination))
            runnable += leave(self._connection, seq, destination, lanes)
        return runnable

    def _again(self, seq: int, row: _Delivery, *, replay: bool, force: bool, by: str) -> None:
        destination, state, lanes = row
        if state in UNFINISHED and state is not State.HELD:
            raise ForbiddenMoveError(f"entry {seq} is under way to {destination} already: wait for its end")
        check_move(state, State.RECEIVED)
        execute, text = self._connection.execute, orjson.dumps(lanes).decode()
        newer = execute(NEWER, (text, destination, seq)).fetchone()[0]
        if newer and not force:
            raise ForbiddenMoveError(
                f"entry {seq}: something newer was applied for this patient at {destination}; use --force to apply the "
                "older one all the same"
            )
        blocked = execute(IS_BLOCKED, (text, destination, seq)).fetchone()[0]
        for lane in lanes:
            execute(ENTER, (destination, lane, seq))
        after = State.WAITING if blocked else State.RECEIVED
        execute(AGAIN, (after.value, text, int(replay), int(newer), by, seq, destination))
        for lane in lanes:
            execute(DEMOTE, (destination, destination, lane, destination, lane))

    def _deliveries(self, seq: int, destinations: tuple[str, ...]) -> list[_Delivery]:
        """Return the deliveries asked for, with the lanes as they are now; the old ones may have been united since."""
        patients = self._entry(seq)[1]
        lanes = list(self._lanes.of(patients))
        rows = [
            (name, state, lanes) for name, state, _old in self._rows(seq) if not destinations or name in destinations
        ]
        if not rows:
            raise ForbiddenMoveError(f"entry {seq} was not given to any such destination: send its message anew")
        return rows

    def _rows(self, seq: int) -> list[_Delivery]:
        rows = self._connection.execute(DELIVERIES, (seq,)).fetchall()
        return [(destination, State(state), orjson.loads(lanes)) for destination, state, lanes in rows]

    def _entry(self, seq: int) -> tuple[State, Any]:
        row = self._connection.execute(ENTRY, (seq,)).fetchone()
        if row is None:
            raise UnknownEntryError(f"there is no entry {seq}")
        return State(row[0]), row[1]
