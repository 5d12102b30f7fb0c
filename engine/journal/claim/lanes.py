"""Lanes: which identities are one patient, as far as the messages journaled so far tell.

A union-find held flat in the table `lane_of`: every identity key points at its lane, and uniting two lanes points the
keys of one at the other. What is queued moves along, so that one patient never runs in two lanes.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import orjson

from engine.database.connection import Connection, json_list
from engine.journal.file.sealing import Sealing
from engine.journal.state.memory import NEWEST_APPLIED

CROWDED: Final = 50
REMEMBERED: Final = 100_000

# The lane of an identity key.
FIND: Final = "SELECT identity, lane FROM lane_of WHERE key = ?"
# A new identity with its lane.
ADD: Final = "INSERT INTO lane_of (identity, key, lane) VALUES (?, ?, ?)"
# How many identities a lane has, up to a bound.
MEMBERS: Final = "SELECT COUNT(*) FROM (SELECT 1 FROM lane_of WHERE lane = ? LIMIT ?) AS members"
# Unite lanes: all their identities point at one.
REPOINT: Final = "UPDATE lane_of SET lane = ? WHERE lane IN (SELECT value FROM json_each(?))"
# The lanes of identities.
LANES_OF: Final = """
SELECT DISTINCT lane FROM lane_of WHERE identity IN (SELECT value FROM json_each(?)) ORDER BY lane
"""
# Whether anything was applied at a destination in one of some lanes (a JSON list), or is on its way there.
THERE: Final = """
SELECT EXISTS (SELECT 1 FROM json_each(?2) AS mine WHERE EXISTS (
  SELECT 1 FROM applied AS a WHERE a.destination = ?1 AND a.lane = mine.value LIMIT 1 OFFSET 0)
OR EXISTS (SELECT 1 FROM queue AS q WHERE q.destination = ?1 AND q.lane = mine.value LIMIT 1 OFFSET 0))
"""
# The keys whose lane is about to change.
MOVED_KEYS: Final = "SELECT key FROM lane_of WHERE lane IN (SELECT value FROM json_each(?))"

# The destinations that have a queue, one step in the index for each.
NEXT_DESTINATION: Final = "SELECT MIN(destination) FROM queue WHERE destination > ?"
# Unfinished deliveries of the lanes that are united.
QUEUED: Final = """
SELECT DISTINCT d.seq, d.lanes FROM json_each(?2) AS place CROSS JOIN queue AS q CROSS JOIN delivery AS d
WHERE q.destination = ?1 AND q.lane = place.value AND d.seq = q.seq AND d.destination = q.destination
"""
# Take united lanes out of the queues.
LEAVE: Final = "DELETE FROM queue WHERE destination = ? AND lane IN (SELECT value FROM json_each(?))"
# Put their deliveries into the queue of the one lane.
ENTER: Final = "INSERT INTO queue (destination, lane, seq) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
# The lanes of a delivery, after lanes were united.
RENAME_LANES: Final = "UPDATE delivery SET lanes = ? WHERE seq = ? AND destination = ?"

# A delivery that is no longer first in one of its lanes waits.
DEMOTE: Final = """
UPDATE delivery SET state = 'waiting' WHERE destination = ? AND state = 'received' AND state <> 'delivered'
AND seq > (SELECT MIN(seq) FROM queue WHERE destination = ? AND lane = ?)
AND seq IN (SELECT seq FROM queue WHERE destination = ? AND lane = ?)
"""

# What was applied in the united lanes counts in the one: the newest event time of each source.
MOVE_APPLIED: Final = f"""
INSERT INTO applied (destination, lane, source, event_at, seq)
SELECT destination, ?, source, event_at, seq FROM applied WHERE lane IN (SELECT value FROM json_each(?)) AND true
{NEWEST_APPLIED}
"""  # noqa: S608 - constants
# Drop what was applied in lanes that are gone.
FORGET_APPLIED: Final = "DELETE FROM applied WHERE lane IN (SELECT value FROM json_each(?))"


class LanePlacement(NamedTuple):
    """Where an entry belongs: the numbers of its identities, its lanes, and whether one of them is crowded."""

    identities: tuple[int, ...]
    lanes: tuple[int, ...]
    crowded: bool


class _LanePosition(NamedTuple):
    identity: int
    lane: int


class Lanes:
    """Looks lanes up, makes and unites them; lives in the writer thread, inside its transactions.

    `joining` is called before lanes are joined, so that what is not yet written can be; `joined` is called with the
    lanes that went into another one, as (lanes, into). Joining many costs as much as there are of them. `joins` counts.
    """

    def __init__(
        self, connection: Connection, joined: Callable[[frozenset[int], int], None], sealing: Sealing | None = None
    ) -> None:
        self._connection = connection
        self._sealing = sealing
        self._joined = joined
        self.joining: Callable[[], None] = _nothing
        self._positions: OrderedDict[str, _LanePosition] = OrderedDict()
        self._next_identity = 1
        self._next_lane = 1
        self.joins = 0
        self.catch_up()

    def forget(self) -> None:
        """Read anew what is held in memory; to be called after a rollback, and where others have united lanes."""
        self._positions.clear()
        self.catch_up()

    def catch_up(self) -> None:
        """Read the next numbers anew: another node may have given some."""
        row = self._connection.execute("SELECT MAX(identity), (SELECT MAX(lane) FROM lane_of) FROM lane_of").fetchone()
        self._next_identity, self._next_lane = (row[0] or 0) + 1, (row[1] or 0) + 1

    def place(self, patients: Sequence[Sequence[str]], *, unite: bool, run: bool) -> LanePlacement:
        """Return where a message about these patients belongs.

        Only a message that is to `run` unites lanes; any other merely makes its identities known.
        """
        if self._sealing is not None:
            patients = [[self._sealing.name(key) for key in group] for group in patients]
        if len(patients) == 1 and len(patients[0]) == 1:
            position = self._positions.get(patients[0][0])
            if position is not None:
                self._positions.move_to_end(patients[0][0])
                return LanePlacement((position.identity,), (position.lane,) if run else (), crowded=False)
        groups = [[self._position(key) for key in group] for group in patients if group]
        identities = tuple(dict.fromkeys(position.identity for group in groups for position in group))
        if not run:
            return LanePlacement(identities, (), crowded=False)
        keys = [[key for group in patients for key in group]] if unite else patients
        united = [self._unite(group) for group in keys if group]
        lanes = tuple(sorted({self._position(group[0]).lane for group in keys if group}))
        return LanePlacement(identities, lanes, crowded=any(united) and any(self._is_crowded(lane) for lane in lanes))

    def of(self, identities: str) -> tuple[int, ...]:
        """Return the lanes of identity numbers (a JSON list) as they are now."""
        rows = self._connection.execute(LANES_OF, (identities,)).fetchall()
        return tuple(lane for (lane,) in rows)

    def there(self, lanes: Sequence[int], destinations: Sequence[str]) -> tuple[str, ...]:
        """Return the destinations that have a patient of these lanes, by what was applied there or is on its way."""
        text = json_list(lanes)
        return tuple(name for name in destinations if self._connection.execute(THERE, (name, text)).fetchone()[0])

    def _position(self, key: str) -> _LanePosition:
        position = self._positions.get(key)
        if position is not None:
            self._positions.move_to_end(key)
            return position
        row = self._connection.execute(FIND, (key,)).fetchone()
        if row is None:
            row = (self._next_identity, self._next_lane)
            self._next_identity += 1
            self._next_lane += 1
            self._connection.execute(ADD, (row[0], key, row[1]))
        return self._remember(key, _LanePosition(*row))

    def _remember(self, key: str, position: _LanePosition) -> _LanePosition:
        self._positions[key] = position
        if len(self._positions) > REMEMBERED:
            self._positions.popitem(last=False)
        return position

    def _unite(self, keys: Iterable[str]) -> bool:
        """Make all keys one lane, the oldest; say whether anything changed."""
        positions = {key: self._position(key) for key in keys}
        lanes = sorted({position.lane for position in positions.values()})
        if len(lanes) > 1:
            self._join(lanes[0], frozenset(lanes[1:]))
        for key, position in positions.items():
            self._remember(key, _LanePosition(position.identity, lanes[0]))
        return len(lanes) > 1

    def _join(self, into: int, gone: frozenset[int]) -> None:
        self.joining()
        self.joins += 1
        execute = self._connection.execute
        lanes = json_list([*gone])
        for (key,) in execute(MOVED_KEYS, (lanes,)).fetchall():
            position = self._positions.get(key)
            if position is not None:
                self._positions[key] = _LanePosition(position.identity, into)
        execute(REPOINT, (into, lanes))
        destination = ""
        while destination := execute(NEXT_DESTINATION, (destination,)).fetchone()[0]:
            self._join_queue(destination, into, gone, lanes)
        execute(MOVE_APPLIED, (into, lanes))
        execute(FORGET_APPLIED, (lanes,))
        self._joined(gone, into)

    def _join_queue(self, destination: str, into: int, gone: frozenset[int], lanes: str) -> None:
        execute, many = self._connection.execute, self._connection.executemany
        rows = execute(QUEUED, (destination, lanes)).fetchall()
        if rows:
            renamed = [(sorted({into if one in gone else one for one in orjson.loads(old)}), seq) for seq, old in rows]
            many(RENAME_LANES, [(json_list(new), seq, destination) for new, seq in renamed])
            execute(LEAVE, (destination, lanes))
            many(ENTER, [(destination, into, seq) for seq, _old in rows])
            execute(DEMOTE, (destination, destination, into, destination, into))

    def _is_crowded(self, lane: int) -> bool:
        return bool(self._connection.execute(MEMBERS, (lane, CROWDED + 1)).fetchone()[0] > CROWDED)


def _nothing() -> None:
    """Stand in for a hook that nobody set."""
