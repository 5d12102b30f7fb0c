"""Counting: how many entries are in which state now, and what came, ended and was answered in a time."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final

from engine.database.connection import Connection, Row, by_name, json_list
from engine.journal.claim.claiming import DESTINATIONS
from engine.journal.entry import UNFINISHED, State
from engine.journal.moment import from_micros, optional_from_micros, to_micros
from engine.journal.read.filtering import NOTED, codes
from engine.journal.read.streams import Stream, span, walk
from engine.journal.read.views import Count, DestinationQueue, JournalStats, Noted, Traffic
from engine.journal.state import uptime
from engine.journal.state.counters import middle_of
from engine.journal.state.rollup import MARK
from engine.journal.state.tally import DAY, MINUTE, MINUTE_SECONDS, WIDTHS, bucket_of

# All that came in, by its state at the door.
RECORDED: Final = "SELECT state, SUM(count) FROM arrived WHERE unit = 'day' GROUP BY state"
# The newest entry's number.
LAST: Final = "SELECT COALESCE(MAX(seq), 0) FROM entry"
# How many deliveries stand in a state, and the oldest of them.
STANDING: Final = """
SELECT COUNT(*), MIN(seq) FROM delivery INDEXED BY delivery_open
WHERE destination = ? AND state = ? AND state <> 'delivered'
"""
# When an entry came in.
RECEIVED_AT: Final = "SELECT received_at FROM entry WHERE seq = ?"

# What came in, by channel and state at the door, in buckets of time.
ARRIVED: Final = """
SELECT channel AS who, state AS kind, at / ?1 * ?1 AS bucket, SUM(count) AS times
FROM arrived WHERE unit = ?2 AND at >= ?3 AND at < ?4 GROUP BY channel, state, bucket
ORDER BY channel, state, bucket
"""
# What ended, by destination and state, in buckets of time.
ENDED: Final = """
SELECT destination AS who, state AS kind, at / ?1 * ?1 AS bucket, SUM(count) AS times
FROM ended WHERE unit = ?2 AND at >= ?3 AND at < ?4 GROUP BY destination, state, bucket
ORDER BY destination, state, bucket
"""
# How long senders waited, in buckets of time.
WAITED: Final = """
SELECT who, bucket AS kind, at / ?1 * ?1 AS bucket_at, SUM(count) AS times
FROM tally WHERE width = ?2 AND at >= ?3 AND at < ?4 AND series = 'ack'
GROUP BY who, kind, bucket_at ORDER BY who, bucket_at, kind
"""
# The same, as an older program counted.
ANSWERED: Final = """
SELECT channel AS who, milliseconds AS kind, at / ?1 * ?1 AS bucket, SUM(count) AS times
FROM answered WHERE at >= ?2 AND at < ?3
GROUP BY channel, milliseconds, bucket ORDER BY channel, bucket, milliseconds
"""
# The oldest minute that was counted.
FIRST: Final = "SELECT MIN(at) FROM arrived WHERE unit = 'minute'"
# How many of the entries each channel has, the newest and the oldest.
CHANNELS_OF: Final = """
SELECT e.channel, COUNT(*) AS entries, MAX(e.seq) AS last, MIN(e.received_at) AS first_at
FROM json_each(?) AS one CROSS JOIN entry AS e ON e.seq = one.value GROUP BY e.channel ORDER BY e.channel
"""
# At which destinations entries bear a note.
NOTED_AT: Final = """
SELECT d.seq, d.destination FROM json_each(?2) AS one CROSS JOIN delivery AS d ON d.seq = one.value
WHERE EXISTS (SELECT 1 FROM json_each(d.notes) AS mine WHERE mine.atom = ?1) ORDER BY d.seq, d.destination
"""
# The bytes of entries.
BODIES: Final = """
SELECT p.seq, p.raw FROM json_each(?) AS one CROSS JOIN payload AS p ON p.seq = one.value ORDER BY p.seq DESC
"""

# What is counted one by one: states that few entries stand in for long.
COUNTED: Final = (*(state for state in State if state in UNFINISHED), State.REJECTED, State.DISCARDED)
MOST_NOTED: Final = 20_000


def stats(connection: Connection) -> JournalStats:
    """Return counts over the whole journal."""
    at_door: dict[str, int] = dict(connection.execute(RECORDED).fetchall())
    entries = sum(at_door.values())
    at_door.pop(State.RECEIVED.value, None)
    queues = {name: _queue(connection, name) for (name,) in connection.execute(DESTINATIONS).fetchall()}
    oldest = [queue.oldest_at for queue in queues.values() if queue.oldest_at]
    deliveries = {name: queue.states for name, queue in queues.items() if queue.states}
    last = connection.execute(LAST).fetchone()[0]
    return JournalStats(entries, last, at_door, deliveries, min(oldest, default=None), queues)


def _queue(connection: Connection, destination: str) -> DestinationQueue:
    states, firsts = {}, []
    for state in COUNTED:
        count, first = connection.execute(STANDING, (destination, state.value)).fetchone()
        if count:
            states[state.value] = count
            firsts += [first] if state in UNFINISHED else []
    row = connection.execute(RECEIVED_AT, (min(firsts),)).fetchone() if firsts else None
    return DestinationQueue(states, optional_from_micros(row[0]) if row else None)


def traffic(connection: Connection, since: datetime, until: datetime, bucket_seconds: int) -> Traffic:
    """Return what came, ended and was answered in a time, in buckets of whole minutes or days.

    Entries by channel and their state at the door; settlements by destination and the state they led to (`received` is
    tried again); acknowledgements by channel and bucket of how long they took (tally.py).
    """
    micros, begin, end = bucket_seconds * 1_000_000, to_micros(since), to_micros(until)
    unit, size = ("day", DAY) if micros % DAY == 0 else ("minute", MINUTE)
    counted = (micros, unit, begin // size * size, end)
    return Traffic(
        tuple(map(_count, by_name(connection, ARRIVED, counted))),
        tuple(map(_count, by_name(connection, ENDED, counted))),
        (*_waits(connection, bucket_seconds, begin, end), *_coarse_waits(connection, micros, begin, end)),
    )


def counted_since(connection: Connection) -> datetime | None:
    """Return when the first message came, or the engine first ran; None where neither is known."""
    first = optional_from_micros(connection.execute(FIRST).fetchone()[0])
    known = [one for one in (first, *(run.began_at for run in uptime.runs(connection)[:1])) if one is not None]
    return min(known, default=None)


def _waits(connection: Connection, bucket_seconds: int, begin: int, end: int) -> Iterator[Count]:
    """Yield waits from the widest rows of which a bucket of time is made up, and from the minutes since these."""
    width = max(width for width in WIDTHS if bucket_seconds % width == 0)
    micros, parts = bucket_seconds * 1_000_000, [(width, begin)]
    if width > MINUTE_SECONDS:
        row = connection.execute(MARK).fetchone()
        parts.append((MINUTE_SECONDS, max(begin, row[0] if row else 0)))
    for size, first in parts:
        for who, bucket, at, times in connection.execute(WAITED, (micros, size, first, end)).fetchall():
            yield Count(who, str(bucket), from_micros(at), times)


def _coarse_waits(connection: Connection, micros: int, begin: int, end: int) -> Iterator[Count]:
    for row in by_name(connection, ANSWERED, (micros, begin, end)):
        yield _count(row)._replace(kind=str(bucket_of(middle_of(int(row["kind"])))))


def _count(row: Row) -> Count:
    return Count(row["who"], str(row["kind"]), from_micros(row["bucket"]), row["times"])


def noted(connection: Connection, code: str, since: datetime | None, until: datetime | None) -> Iterator[Noted]:
    """Yield each note that is a code or goes on from it, by channel; of each note the newest 20,000 entries count."""
    least, before = span(connection, since, until)
    for note in codes(connection, code):
        seqs = list(islice(walk(connection, [Stream(NOTED, (note,))], before, least), MOST_NOTED))
        cut = len(seqs) == MOST_NOTED
        rows = by_name(connection, CHANNELS_OF, (json_list(seqs),)).fetchall()
        places: dict[int, tuple[str, ...]] = {}
        for seq, name in connection.execute(NOTED_AT, (note, json_list([row["last"] for row in rows]))).fetchall():
            places[seq] = (*places.get(seq, ()), name)
        for row in rows:
            back_to = from_micros(row["first_at"]) if cut else None
            last = row["last"]
            yield Noted(note, row["channel"], row["entries"], last, back_to, places.get(last, ()))


def bodies_noted(
    connection: Connection, note: str, since: datetime | None, until: datetime | None, most: int
) -> list[tuple[int, bytes]]:
    """Return number and bytes of the newest entries with a note."""
    least, before = span(connection, since, until)
    seqs = list(islice(walk(connection, [Stream(NOTED, (note,))], before, least), most))
    found: list[tuple[int, bytes]] = connection.execute(BODIES, (json_list(seqs),)).fetchall()
    return found
