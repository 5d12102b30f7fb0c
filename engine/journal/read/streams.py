"""Streams of entry numbers out of an index, newest first, walked as one; and the entry numbers that a time can hold.

Numbers rise with the time of arrival but for clocks that were set back, and for messages that were under way; the
counters know the first and last number of each minute, so that no entry of a time is missed whatever the clock did.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from heapq import merge
from typing import Any, Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.moment import to_micros
from engine.journal.state.tally import DAY, MINUTE

EVERYTHING: Final = 2**62


class Stream(NamedTuple):
    """A query for entry numbers, newest first; its last two values are the bounds: below one, from the other on."""

    sql: str
    values: tuple[Any, ...] = ()


def walk(connection: Connection, streams: Iterable[Stream], before: int, least: int) -> Iterator[int]:
    """Yield the numbers of all streams, newest first, each once; rows are read only as far as they are asked for."""
    last = EVERYTHING
    for seq in merge(*(_numbers(connection, stream, before, least) for stream in streams), reverse=True):
        if seq != last:
            last = seq
            yield seq


def count(connection: Connection, stream: Stream, before: int, least: int, most: int) -> int:
    """Return how many numbers a stream has, at most `most`."""
    sql = f"SELECT COUNT(*) FROM ({stream.sql} LIMIT ?) AS counted"  # noqa: S608 - a stream's query is a constant
    found: int = connection.execute(sql, (*stream.values, before, least, most)).fetchone()[0]
    return found


def _numbers(connection: Connection, stream: Stream, before: int, least: int) -> Iterator[int]:
    for (seq,) in connection.execute(stream.sql, (*stream.values, before, least)):
        yield seq


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
