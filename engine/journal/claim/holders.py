"""Holders: what other nodes of a shared journal have claimed, and which of them had a lane last.

Who had it last knows what the server holds, and goes on without reading; so a lane stays with its node where it can.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import orjson

from engine.database.connection import Connection, json_list
from engine.journal.entry import Claimed

# The holder of claims in a journal that one process has for itself.
ALONE: Final = 0
# How many lanes are remembered, with the node that had each last.
REMEMBERED: Final = 100_000

# What other nodes have taken, and the lanes of it.
TAKEN: Final = """
SELECT seq, lanes FROM delivery WHERE destination = ? AND state = 'claimed' AND state <> 'delivered' AND holder <> ?
"""
# What a node has taken itself, after others may have united lanes.
OWN: Final = """
SELECT seq, lanes FROM delivery WHERE destination = ? AND state = 'claimed' AND state <> 'delivered' AND holder = ?
"""
# Which node had lanes (a JSON list) last at a destination; 0 for one that is no more.
HAD: Final = """
SELECT i.value, (SELECT CASE
    WHEN EXISTS (SELECT 1 FROM node WHERE incarnation = h.holder AND state = 'live' LIMIT 1 OFFSET 0) THEN h.holder
    ELSE 0 END
  FROM lane_holder AS h WHERE h.lane = i.value AND h.destination = ?)
FROM json_each(?) AS i
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
        # Nobody else changes what was read until another node has a turn.
        self._read: dict[tuple[str, int], int | None] = {}

    def forget(self) -> None:
        """Read anew: another node has had a turn, or is no more."""
        self._read.clear()

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
        had = self._last(destination, (lane for claim in claims for lane in claim.lanes))
        others = {lane for lane, holder in had.items() if holder not in {None, self.holder}}
        wanted = sorted(lane for lane, holder in had.items() if holder != self.holder)
        if wanted:
            self._connection.execute(HAVE, (destination, self.holder, json_list(wanted)))
            self._read |= {(destination, lane): self.holder for lane in wanted}
        return tuple(claim if others.isdisjoint(claim.lanes) else replace(claim, foreign=True) for claim in claims)

    def elsewhere(self, destination: str, lanes: Iterable[int]) -> set[int]:
        """Return those of some lanes that another node had last which is still there."""
        if self.holder == ALONE:
            return set()
        last = self._last(destination, lanes)
        return {lane for lane, holder in last.items() if holder not in {None, 0, self.holder}}

    def united(self, into: int) -> None:
        """Note that lanes went into another one."""
        if self.holder != ALONE:
            self._connection.execute(UNKNOWN, (into,))
            self._read.clear()

    def _last(self, destination: str, lanes: Iterable[int]) -> dict[int, int | None]:
        """Return which node had each of some lanes last: 0 for one that is no more, None where there was none."""
        asked = set(lanes)
        unread = [lane for lane in asked if (destination, lane) not in self._read]
        if unread:
            if len(self._read) + len(asked) > REMEMBERED:
                self._read.clear()
                unread = list(asked)
            rows = self._connection.execute(HAD, (destination, json_list(unread))).fetchall()
            self._read |= {(destination, lane): holder for lane, holder in rows}
        return {lane: self._read[destination, lane] for lane in asked}

    def _out(self, query: str, destination: str) -> Lanes:
        rows = self._connection.execute(query, (destination, self.holder)).fetchall()
        return {seq: tuple(orjson.loads(lanes)) for seq, lanes in rows}
