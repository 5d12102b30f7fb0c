"""Lanes: which identities are one patient, as far as the messages journaled so far tell.

A union-find held flat in the table `lane_of`: every identity key points at its lane, and uniting two lanes points the
keys of one at the other. What is queued moves along, so that one patient never runs in two lanes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import orjson

from engine.journal.sealing import Sealing
from engine.sqlite import Connection

CROWDED: Final = 50
REMEMBERED: Final = 100_000

FIND: Final = "SELECT identity, lane FROM lane_of WHERE key = ?"
ADD: Final = "INSERT INTO lane_of (identity, key, lane) VALUES (?, ?, ?)"
MEMBERS: Final = "SELECT COUNT(*) FROM (SELECT 1 FROM lane_of WHERE lane = ? LIMIT ?)"
REPOINT: Final = "UPDATE lane_of SET lane = ? WHERE lane = ?"
LANES_OF: Final = """
SELECT DISTINCT lane FROM lane_of WHERE identity IN (SELECT value FROM json_each(?)) ORDER BY lane
"""
MOVED_KEYS: Final = "SELECT key FROM lane_of WHERE lane = ?"

NEXT_DESTINATION: Final = "SELECT MIN(destination) FROM queue WHERE destination > ?"
QUEUED: Final = """
SELECT q.seq, d.lanes FROM queue AS q JOIN delivery AS d ON d.seq = q.seq AND d.destination = q.destination
WHERE q.destination = ? AND q.lane = ?
"""
LEAVE: Final = "DELETE FROM queue WHERE destination = ? AND lane = ? AND seq = ?"
ENTER: Final = "INSERT INTO queue (destination, lane, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
RENAME_LANES: Final = "UPDATE delivery SET lanes = ? WHERE seq = ? AND destination = ?"

# Whoever is no longer first in one of its lanes waits.
DEMOTE: Final = """
UPDATE delivery SET state = 'waiting' WHERE destination = ? AND state = 'received' AND state <> 'delivered'
AND seq > (SELECT MIN(seq) FROM queue WHERE destination = ? AND lane = ?)
AND seq IN (SELECT seq FROM queue WHERE destination = ? AND lane = ?)
"""

MOVE_APPLIED: Final = """
INSERT INTO applied (destination, lane, source, event_at, seq)
SELECT destination, ?, source, event_at, seq FROM applied WHERE lane = ? AND true
ON CONFLICT (destination, lane, source) DO UPDATE SET
  event_at = CASE WHEN applied.event_at IS NULL OR excluded.event_at > applied.event_at
             THEN COALESCE(excluded.event_at, applied.event_at) ELSE applied.event_at END,
  seq = CASE WHEN excluded.seq > applied.seq THEN excluded.seq ELSE applied.seq END
"""
FORGET_APPLIED: Final = "DELETE FROM applied WHERE lane = ?"


class Placed(NamedTuple):
    """Where an entry belongs: the numbers of its identities, its lanes, and whether one of them is crowded."""

    identities: tuple[int, ...]
    lanes: tuple[int, ...]
    crowded: bool


class _Spot(NamedTuple):
    identity: int
    lane: int


class Lanes:
    """Looks lanes up, makes and unites them; lives in the writer thread, inside its transactions.

    `joining` is called before lanes are joined, so that what is not yet written can be; `joined` is told of every
    lane that went into another one, as (lane, into).
    """

    def __init__(
        self, connection: Connection, joined: Callable[[int, int], None], sealing: Sealing | None = None
    ) -> None:
        self._connection = connection
        self._sealing = sealing
        self._joined = joined
        self.joining: Callable[[], None] = _nothing
        self._spots: OrderedDict[str, _Spot] = OrderedDict()
        self._next_identity = 1
        self._next_lane = 1
        self.forget()

    def forget(self) -> None:
        """Read anew what is held in memory; to be called after a rollback."""
        self._spots.clear()
        row = self._connection.execute("SELECT MAX(identity), (SELECT MAX(lane) FROM lane_of) FROM lane_of").fetchone()
        self._next_identity, self._next_lane = (row[0] or 0) + 1, (row[1] or 0) + 1

    def place(self, patients: Sequence[Sequence[str]], *, unite: bool, run: bool) -> Placed:
        """Return where a message about these patients belongs.

        Only a message that is to `run` unites lanes; any other merely makes its identities known.
        """
        if self._sealing is not None:
            patients = [[self._sealing.name(key) for key in group] for group in patients]
        if len(patients) == 1 and len(patients[0]) == 1:
            spot = self._spots.get(patients[0][0])
            if spot is not None:
                self._spots.move_to_end(patients[0][0])
                return Placed((spot.identity,), (spot.lane,) if run else (), crowded=False)
        groups = [[self._spot(key) for key in group] for group in patients if group]
        identities = tuple(dict.fromkeys(spot.identity for group in groups for spot in group))
        if not run:
            return Placed(identities, (), crowded=False)
        keys = [[key for group in patients for key in group]] if unite else patients
        united = [self._unite(group) for group in keys if group]
        lanes = tuple(sorted({self._spot(group[0]).lane for group in keys if group}))
        return Placed(identities, lanes, crowded=any(united) and any(self._is_crowded(lane) for lane in lanes))

    def of(self, identities: str) -> tuple[int, ...]:
        """Return the lanes of identity numbers (a JSON list) as they are now."""
        rows = self._connection.execute(LANES_OF, (identities,)).fetchall()
        return tuple(lane for (lane,) in rows)

    def _spot(self, key: str) -> _Spot:
        spot = self._spots.get(key)
        if spot is not None:
            self._spots.move_to_end(key)
            return spot
        row = self._connection.execute(FIND, (key,)).fetchone()
        if row is None:
            row = (self._next_identity, self._next_lane)
            self._next_identity += 1
            self._next_lane += 1
            self._connection.execute(ADD, (row[0], key, row[1]))
        return self._remember(key, _Spot(*row))

    def _remember(self, key: str, spot: _Spot) -> _Spot:
        self._spots[key] = spot
        if len(self._spots) > REMEMBERED:
            self._spots.popitem(last=False)
        return spot

    def _unite(self, keys: Iterable[str]) -> bool:
        """Make all keys one lane, the oldest; say whether anything changed."""
        spots = {key: self._spot(key) for key in keys}
        lanes = sorted({spot.lane for spot in spots.values()})
        for lane in lanes[1:]:
            self._join(lanes[0], lane)
        for key, spot in spots.items():
            self._remember(key, _Spot(spot.identity, lanes[0]))
        return len(lanes) > 1

    def _join(self, into: int, lane: int) -> None:
        self.joining()
        execute = self._connection.execute
        for (key,) in execute(MOVED_KEYS, (lane,)).fetchall():
            spot = self._spots.get(key)
            if spot is not None:
                self._spots[key] = _Spot(spot.identity, into)
        execute(REPOINT, (into, lane))
        destination = ""
        while destination := execute(NEXT_DESTINATION, (destination,)).fetchone()[0]:
            self._join_queue(destination, into, lane)
        execute(MOVE_APPLIED, (into, lane))
        execute(FORGET_APPLIED, (lane,))
        self._joined(lane, into)

    def _join_queue(self, destination: str, into: int, lane: int) -> None:
        execute = self._connection.execute
        rows = execute(QUEUED, (destination, lane)).fetchall()
        for seq, lanes in rows:
            renamed = sorted({into if one == lane else one for one in orjson.loads(lanes)})
            execute(RENAME_LANES, (orjson.dumps(renamed).decode(), seq, destination))
            execute(LEAVE, (destination, lane, seq))
            execute(ENTER, (destination, into, seq))
        if rows:
            execute(DEMOTE, (destination, destination, into, destination, into))

    def _is_crowded(self, lane: int) -> bool:
        return bool(self._connection.execute(MEMBERS, (lane, CROWDED + 1)).fetchone()[0] > CROWDED)


def _nothing() -> None:
    """Stand in for a hook that nobody set."""
