"""Holders: what other nodes of a shared journal have claimed, and which of them had a lane last."""

from dataclasses import replace
from typing import Final

import orjson

from engine.database.connection import Connection, json_list
from engine.journal.entry import Claimed

# The holder of claims in a journal that one process has for itself.
ALONE: Final = 0

# What other nodes have taken, and the lanes of it.
TAKEN: Final = """
SELECT seq, lanes FROM delivery WHERE destination = ? AND state = 'claimed' AND state <> 'delivered' AND holder <> ?
"""
# What a node has taken itself, after others may have united lanes.
OWN: Final = """
SELECT seq, lanes FROM delivery WHERE destination = ? AND state = 'claimed' AND state <> 'delivered' AND holder = ?
"""
# Which node had lanes (a JSON list) last at a destination.
HAD: Final = """
SELECT i.value, (SELECT holder FROM lane_holder WHERE lane = i.value AND destination = ?) FROM json_each(?) AS i
"""
# Have lanes.
HAVE: Final = """
INSERT INTO lane_holder (lane, destination, holder) SELECT value, ?, ? FROM json_each(?) AS i WHERE true
ON CONFLICT (lane, destination) DO UPDATE SET holder = excluded.holder
"""
# Nobody knows all of a lane that others went into.
UNKNOWN: Final = "UPDATE lane_holder SET holder = 0 WHERE lane = ?"

Lanes = dict[int, tuple[int, ...]]


class Holders:
    """What this holder has to know of the others; lives in the writer thread, inside its transactions."""

    def __init__(self, connection: Connection, holder: int) -> None:
        self._connection = connection
        self.holder = holder

    def taken(self, destination: str) -> Lanes:
        """Return what other nodes have out at a destination, and the lanes of each."""
        return self._out(TAKEN, destination) if self.holder != ALONE else {}

    def own(self, destination: str) -> Lanes:
        """Return what the journal says that this holder has out at a destination, and the lanes of each."""
        return self._out(OWN, destination)

    def had(self, destination: str, claims: tuple[Claimed, ...]) -> tuple[Claimed, ...]:
        """Have the lanes of claims from now on, and mark those of which another node had one."""
        if self.holder == ALONE or not claims:
            return claims
        lanes = {lane for one in claims for lane in one.lanes}
        had = dict(self._connection.execute(HAD, (destination, json_list([*lanes]))).fetchall())
        others = {lane for lane, holder in had.items() if holder not in {None, self.holder}}
        wanted = sorted(lane for lane, holder in had.items() if holder != self.holder)
        if wanted:
            self._connection.execute(HAVE, (destination, self.holder, json_list(wanted)))
        return tuple(one if others.isdisjoint(one.lanes) else replace(one, foreign=True) for one in claims)

    def united(self, into: int) -> None:
        """Note that lanes went into another one."""
        if self.holder != ALONE:
            self._connection.execute(UNKNOWN, (into,))

    def _out(self, query: str, destination: str) -> Lanes:
        rows = self._connection.execute(query, (destination, self.holder)).fetchall()
        return {seq: tuple(orjson.loads(lanes)) for seq, lanes in rows}
