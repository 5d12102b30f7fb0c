"""Spans: which entry numbers a time can hold, by the counters of days and minutes.

Numbers rise with the time of arrival but for clocks that were set back, and for messages that were under way; the
counters know the first and last number of each minute, so that no entry of a time is missed whatever the clock did.
"""

from datetime import datetime
from typing import Final

from engine.database.connection import Connection
from engine.journal.moment import to_micros
from engine.journal.read.streams import EVERYTHING
from engine.journal.state.counters import DAY, MINUTE

# The lowest number of a time and the number after its highest.
SPAN: Final = """
SELECT MIN(first_seq), MAX(last_seq) + 1 FROM arrived WHERE unit = ? AND at >= ? AND at < ?
"""


def span(connection: Connection, since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """Return the least number that a time can hold and the one after the greatest; equal where it holds none."""
    begin = to_micros(since) // MINUTE * MINUTE if since else 0
    end = -(-to_micros(until) // MINUTE) * MINUTE if until else EVERYTHING
    if since is None and until is None:
        return 0, EVERYTHING
    first_day = -(-begin // DAY) * DAY
    last_day = end // DAY * DAY
    if first_day >= last_day:
        pieces = [("minute", begin, end)]
    else:
        pieces = [("minute", begin, first_day), ("day", first_day, last_day), ("minute", last_day, end)]
    found = [connection.execute(SPAN, piece).fetchone() for piece in pieces if piece[1] < piece[2]]
    known = [row for row in found if row[0] is not None]
    return (min(row[0] for row in known), max(row[1] for row in known)) if known else (0, 0)
