"""Rolled-up counts, for charts: what came, ended, waited and how long it took, in rows of four widths.

Entries and settlements are counted by minute as they are written (counters.py); once a minute those minutes are added
to wider rows, after a mark that says how far that came. Waits for deliveries and depths of queues are given with it.
Histograms have fixed bounds, so that minutes, channels and nodes add up. An older journal is caught up with in steps.

Each function works on the writing connection: hand it to `Journal.write`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.moment import to_micros
from engine.journal.state.counters import MINUTE, bound_of

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
# Widths of rows in seconds, and how long they stay: each is for a chart of its own, with some room.
WIDTHS: Final[Mapping[int, int]] = {60: 2 * DAY, 600: 3 * DAY, 3_600: 15 * DAY, 21_600: 40 * DAY}
WIDEST: Final = max(WIDTHS)
# Minutes are read from the counters where they are wanted; of these only what is wider.
WIDER: Final = tuple(width for width in WIDTHS if width > 60)
# A minute is counted to the end two minutes after it: what becomes of acknowledgements is written a moment later.
SETTLED_AFTER: Final = 2 * MINUTE
# What one step looks at of an older journal.
MINUTES_AT_ONCE: Final = 60
ENTRIES_AT_ONCE: Final = 1_000

# How far counters are added up, below which entry deliveries are still to be looked at, and those settled before when.
MARK: Final = "SELECT upto, unfilled, since FROM rolled WHERE id = 1"
# Begin: from the oldest minute on, and with the newest entry.
BEGIN: Final = "INSERT INTO rolled (id, upto, unfilled, since) VALUES (1, ?, ?, ?)"
# So far it came.
KEEP_MARK: Final = "UPDATE rolled SET upto = ?, unfilled = ? WHERE id = 1"
# The oldest minute that was counted.
OLDEST: Final = "SELECT MIN(at) FROM arrived WHERE unit = 'minute'"
# The newest entry.
NEWEST: Final = "SELECT COALESCE(MAX(seq), 0) FROM entry"
# What came in some minutes, by channel and state at the door.
ARRIVED: Final = """
SELECT at, channel, state, count FROM arrived WHERE unit = 'minute' AND at >= ? AND at < ?
ORDER BY at, channel, state
"""
# What ended in some minutes, by destination and state.
ENDED: Final = """
SELECT at, destination, state, count FROM ended WHERE unit = 'minute' AND at >= ? AND at < ?
ORDER BY at, destination, state
"""
# How long senders waited who were answered in some minutes.
ANSWERED: Final = (
    "SELECT at, channel, milliseconds, count FROM answered WHERE at >= ? AND at < ? ORDER BY at, channel, milliseconds"
)
# Deliveries of some entries that ended well before a moment, with when their entries came in; replays not.
DELIVERED: Final = """
SELECT d.destination, d.settled_at, e.received_at FROM delivery AS d CROSS JOIN entry AS e ON e.seq = d.seq
WHERE d.seq > ? AND d.seq <= ? AND d.state = 'delivered' AND d.replay = 0 AND d.settled_at < ?
"""
# The newest entry up to a number, and when it came in.
BEFORE: Final = "SELECT seq, received_at FROM entry WHERE seq <= ? ORDER BY seq DESC LIMIT 1"
# Add to a row.
ADD: Final = """
INSERT INTO rollup (width, at, series, who, bound, count) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (width, at, series, who, bound) DO UPDATE SET count = rollup.count + excluded.count
"""
# Keep the deepest of a row.
DEEPEST: Final = """
INSERT INTO rollup (width, at, series, who, bound, count) VALUES (?, ?, 'depth', ?, 0, ?)
ON CONFLICT (width, at, series, who, bound) DO UPDATE SET
  count = CASE WHEN excluded.count > rollup.count THEN excluded.count ELSE rollup.count END
"""
# The rows of a width.
ROWS: Final = "SELECT series, who, at, bound, count FROM rollup WHERE width = ? AND at >= ? AND at < ?"
# Drop what no chart shows any more.
FORGET: Final = "DELETE FROM rollup WHERE width = ? AND at < ?"

# What states mean in a chart; all that came counts as received.
ARRIVALS: Final[Mapping[str, str]] = {"rejected": "refused", "held": "held"}
ENDS: Final[Mapping[str, str]] = {"delivered": "delivered", "held": "held"}


class WaitBucket(NamedTuple):
    """How long deliveries of one minute took: up to `bound` milliseconds; `at` is in microseconds since 1970."""

    at: int
    destination: str
    bound: int


class Rolled(NamedTuple):
    """How many of a series there were, of a channel or destination, in the row that begins `at` (microseconds).

    Series: received, refused and ack by channel, delivered, delivery and depth by destination, held by either. `bound`:
    of ack and delivery, which are histograms, up to how many milliseconds; else 0. A depth is the deepest.
    """

    series: str
    who: str
    at: int
    bound: int
    times: int


class _Mark(NamedTuple):
    upto: int
    unfilled: int
    since: int


_Row = tuple[int, int, str, str, int]


def wait_of(destination: str, received_at: datetime, settled_at: datetime) -> WaitBucket:
    """Return in which minute and within which bound a delivery ended."""
    return _wait(destination, to_micros(received_at), to_micros(settled_at))


def _wait(destination: str, received_at: int, settled_at: int) -> WaitBucket:
    return WaitBucket(settled_at // MINUTE * MINUTE, destination, bound_of(settled_at - received_at))


def counted(connection: Connection, begin: int, end: int) -> Iterator[Rolled]:
    """Yield what was counted as it was written in some minutes, which no row of one minute says again."""
    for at, channel, state, count in connection.execute(ARRIVED, (begin, end)).fetchall():
        yield Rolled("received", channel, at, 0, count)
        if state in ARRIVALS:
            yield Rolled(ARRIVALS[state], channel, at, 0, count)
    for at, destination, state, count in connection.execute(ENDED, (begin, end)).fetchall():
        if state in ENDS:
            yield Rolled(ENDS[state], destination, at, 0, count)
    for at, channel, bound, count in connection.execute(ANSWERED, (begin, end)).fetchall():
        yield Rolled("ack", channel, at, bound, count)


def rolled(connection: Connection, width: int, since: datetime, until: datetime) -> list[Rolled]:
    """Return the rows of a width that begin in a time; those of minutes with what was counted until now.

    For any connection of the journal, and as many rows whatever is in it.
    """
    begin, end = to_micros(since), to_micros(until)
    rows = [Rolled(*row) for row in connection.execute(ROWS, (width, begin, end)).fetchall()]
    return rows if width in WIDER else [*rows, *counted(connection, begin, end)]


def roll_up(
    connection: Connection, waits: Mapping[WaitBucket, int], depths: Mapping[str, int], begun: datetime, now: datetime
) -> bool:
    """Add to the rows what was counted since; return whether something of an older journal is still to be added.

    `waits`: deliveries of this process since the last time. `depths`: what waits for each destination now; empty where
    another node says so. `begun`: when this process began to count waits.
    """
    moment = to_micros(now)
    mark = _mark(connection, to_micros(begun), moment)
    found: Counter[_Row] = Counter()
    for wait, count in waits.items():
        _count(found, WIDTHS, wait.at, ("delivery", wait.destination, wait.bound), count)
    upto = _counted(connection, mark.upto, moment // MINUTE * MINUTE - SETTLED_AFTER, found)
    unfilled = _filled(connection, mark, moment, found) if mark.unfilled else 0
    _write(connection, found, moment)
    connection.executemany(
        DEEPEST,
        [(width, _begin(moment, width), name, depth) for name, depth in depths.items() for width in WIDTHS],
    )
    connection.execute(KEEP_MARK, (upto, unfilled))
    for width, kept in WIDTHS.items():
        connection.execute(FORGET, (width, moment - kept))
    return bool(unfilled) or upto + SETTLED_AFTER + MINUTE <= moment


def _mark(connection: Connection, begun: int, now: int) -> _Mark:
    row = connection.execute(MARK).fetchone()
    if row is None:
        oldest = connection.execute(OLDEST).fetchone()[0]
        upto = _begin(begun if oldest is None else max(oldest, now - WIDTHS[WIDEST]), 60)
        row = (upto, connection.execute(NEWEST).fetchone()[0], begun)
        connection.execute(BEGIN, row)
    return _Mark(*row)


def _counted(connection: Connection, upto: int, until: int, found: Counter[_Row]) -> int:
    """Count the next minutes that are over; return the end of the last one."""
    end = min(upto + MINUTES_AT_ONCE * MINUTE, until)
    if end <= upto:
        return upto
    for one in counted(connection, upto, end):
        _count(found, WIDER, one.at, (one.series, one.who, one.bound), one.times)
    return end


def _filled(connection: Connection, mark: _Mark, now: int, found: Counter[_Row]) -> int:
    """Count waits of older deliveries, newest first; return the next entry, 0 where all that charts show is done."""
    least = max(mark.unfilled - ENTRIES_AT_ONCE, 0)
    for destination, settled_at, received_at in connection.execute(
        DELIVERED, (least, mark.unfilled, mark.since)
    ).fetchall():
        wait = _wait(destination, received_at, settled_at)
        _count(found, WIDTHS, wait.at, ("delivery", destination, wait.bound), 1)
    before = connection.execute(BEFORE, (least,)).fetchone()
    return int(before[0]) if before is not None and before[1] >= now - WIDTHS[WIDEST] else 0


def _count(found: Counter[_Row], widths: Iterable[int], at: int, series: tuple[str, str, int], count: int) -> None:
    for width in widths:
        found[(width, _begin(at, width), *series)] += count


def _write(connection: Connection, found: Counter[_Row], now: int) -> None:
    rows = [(*row, count) for row, count in found.items() if row[1] >= now - WIDTHS[row[0]]]
    connection.executemany(ADD, rows)


def _begin(at: int, width: int) -> int:
    return at // (width * SECOND) * (width * SECOND)
