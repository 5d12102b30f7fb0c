"""Counters: what came, ended and was answered, counted by minute and day as it is written."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

from engine.database.connection import Connection
from engine.journal.entry import Settlement
from engine.journal.moment import to_micros
from engine.journal.state.tally import ACK, DAY, EVENT, MINUTE, SENDER, NameLimit, TallyKey, add_minutes, wait_of

UNITS: Final = (("minute", MINUTE), ("day", DAY))

# Upper bounds, in milliseconds, of the times that older programs counted (`answered`); what is longer up to its whole
# second, and past ten minutes up to its whole minute.
BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
BY_SECONDS: Final = 10 * MINUTE_MS

# Add entries to the counters of their minute or day.
ARRIVED: Final = """
INSERT INTO arrived (unit, at, channel, state, count, first_seq, last_seq) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (unit, at, channel, state) DO UPDATE SET count = arrived.count + excluded.count,
  first_seq = CASE WHEN excluded.first_seq < arrived.first_seq THEN excluded.first_seq ELSE arrived.first_seq END,
  last_seq = CASE WHEN excluded.last_seq > arrived.last_seq THEN excluded.last_seq ELSE arrived.last_seq END
"""
# Add settlements to the counters of their minute or day.
ENDED: Final = """
INSERT INTO ended (unit, at, destination, state, count) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (unit, at, destination, state) DO UPDATE SET count = ended.count + excluded.count
"""
# How long senders waited whose acknowledgements were written (a JSON list of [entry, moment]), by channel; of messages
# that came once, as the first receipt of another says nothing of how soon it was answered.
WAITED: Final = """
SELECT e.channel, e.received_at, CAST(sent.value ->> 1 AS BIGINT) FROM json_each(?) AS sent CROSS JOIN entry AS e
WHERE e.seq = CAST(sent.value ->> 0 AS BIGINT) AND e.ack_outcome <> 'sent' AND e.receipts = 1
"""
# Find an entry by a note of it.
NOTE: Final = "INSERT INTO noted (code, seq) VALUES (?, ?) ON CONFLICT DO NOTHING"


def middle_of(bound: int) -> int:
    """Return the geometric middle, in microseconds, of what an older program counted up to some milliseconds."""
    return round(math.sqrt(max(_floor_of(bound), 0.25) * bound) * 1_000)


def _floor_of(bound: int) -> int:
    """Return from how many milliseconds on waits are counted up to a bound."""
    if bound <= BOUNDS[-1]:
        place = bisect_left(BOUNDS, bound)
        return BOUNDS[place - 1] if place else 0
    return bound - (SECOND_MS if bound <= BY_SECONDS else MINUTE_MS)


def count_waits(connection: Connection, sent: str) -> None:
    """Write how long senders waited for acknowledgements: a JSON list of [entry, moment]."""
    waits: Counter[TallyKey] = Counter()
    for channel, received_at, at in connection.execute(WAITED, (sent,)).fetchall():
        # A clock that was set back measured nothing.
        if at >= received_at:
            waits[wait_of(ACK, channel, received_at, at)] += 1
    add_minutes(connection, waits)


class Arrivals:
    """Entries of one batch, by minute, channel and state, by sender and by event; numbers come in rising order."""

    def __init__(self, names: NameLimit) -> None:
        self._found: dict[tuple[int, str, str], list[int]] = {}
        self._names = names
        self._named: Counter[TallyKey] = Counter()

    def add(self, seq: int, micros: int, channel: str, state: str, source: str, event: str) -> None:
        """Count an entry."""
        self._named[self._names.key(micros, SENDER, source)] += 1
        self._named[self._names.key(micros, EVENT, event)] += 1
        row = self._found.get((micros // MINUTE, channel, state))
        if row is None:
            self._found[micros // MINUTE, channel, state] = [1, seq, seq]
        else:
            row[0] += 1
            row[2] = seq

    def write(self, connection: Connection) -> None:
        """Write what was counted, and begin anew."""
        rows = [
            (name, minute * MINUTE // unit * unit, channel, state, *row)
            for (minute, channel, state), row in self._found.items()
            for name, unit in UNITS
        ]
        connection.executemany(ARRIVED, rows)
        self._found.clear()
        add_minutes(connection, self._named)
        self._named.clear()


def count_ends(connection: Connection, settlements: Iterable[Settlement]) -> None:
    """Write how many settlements led where, by minute and day."""
    ends = Counter((to_micros(one.at) // MINUTE, one.destination, one.state.value) for one in settlements)
    rows = [
        (name, minute * MINUTE // unit * unit, destination, state, count)
        for (minute, destination, state), count in ends.items()
        for name, unit in UNITS
    ]
    connection.executemany(ENDED, rows)


def notes_of(settlements: Iterable[Settlement]) -> list[tuple[str, int]]:
    """Return the notes of settlements and the codes of their answers, each with its entry."""
    return [
        (code, settlement.seq)
        for settlement in settlements
        if settlement.notes or settlement.outcomes
        for code in (*settlement.notes, *(code for outcome in settlement.outcomes for code in outcome.codes))
    ]
