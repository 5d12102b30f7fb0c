"""Counters: what came, ended and was answered, counted by minute and day as it is written."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from typing import Final

from engine.database.connection import Connection
from engine.journal.entry import Settlement
from engine.journal.moment import to_micros

MINUTE: Final = 60_000_000
DAY: Final = 86_400_000_000
UNITS: Final = (("minute", MINUTE), ("day", DAY))

# Upper bounds of the times that somebody waited, in milliseconds. What is longer is counted up to its whole second, and
# past ten minutes up to its whole minute, so that no long wait is reported as the end of a wide range.
BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60_000
BY_SECONDS: Final = 10 * MINUTE_MS
LONGEST_MS: Final = 24 * 60 * MINUTE_MS

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
_BOUND: Final = " ".join(
    f"WHEN CAST(sent.value ->> 1 AS BIGINT) - e.received_at <= {bound * 1000} THEN {bound}" for bound in BOUNDS
)
_LONGER: Final = " ".join(
    f"WHEN CAST(sent.value ->> 1 AS BIGINT) - e.received_at <= {most * 1000} "
    f"THEN (CAST(sent.value ->> 1 AS BIGINT) - e.received_at + {step * 1000 - 1}) / {step * 1000} * {step}"
    for most, step in ((BY_SECONDS, SECOND_MS), (LONGEST_MS, MINUTE_MS))
)
# Acknowledgements written (a JSON list of [entry, moment]) in their minute, by how long after their messages came; a
# message that was sent again is not counted again.
ANSWERED: Final = f"""
INSERT INTO answered (at, channel, milliseconds, count)
SELECT CAST(sent.value ->> 1 AS BIGINT) / {MINUTE} * {MINUTE}, e.channel,
  CASE {_BOUND} {_LONGER} ELSE {LONGEST_MS} END AS bound, COUNT(*)
FROM json_each(?) AS sent CROSS JOIN entry AS e
WHERE e.seq = CAST(sent.value ->> 0 AS BIGINT) AND e.ack_outcome <> 'sent'
GROUP BY 1, 2, bound
ON CONFLICT (at, channel, milliseconds) DO UPDATE SET count = answered.count + excluded.count
"""  # noqa: S608 - constants
# Find an entry by a note of it.
NOTE: Final = "INSERT INTO noted (code, seq) VALUES (?, ?) ON CONFLICT DO NOTHING"


def bound_of(micros: int) -> int:
    """Return up to how many milliseconds a wait is counted, as the statement above does."""
    waited = -(-micros // 1_000)
    if waited <= BOUNDS[-1]:
        return BOUNDS[bisect_left(BOUNDS, waited)]
    step = SECOND_MS if waited <= BY_SECONDS else MINUTE_MS
    return min(-(-waited // step) * step, LONGEST_MS)


def floor_of(bound: int) -> int:
    """Return from how many milliseconds on waits are counted up to a bound."""
    if bound <= BOUNDS[-1]:
        place = bisect_left(BOUNDS, bound)
        return BOUNDS[place - 1] if place else 0
    return bound - (SECOND_MS if bound <= BY_SECONDS else MINUTE_MS)


class Arrivals:
    """Entries of one batch, by minute, channel and state; numbers come in rising order."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str, str], list[int]] = {}

    def add(self, seq: int, micros: int, channel: str, state: str) -> None:
        """Count an entry."""
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
