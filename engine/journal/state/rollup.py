"""Rolled-up counts, for charts: what came, ended and waited, in rows of four widths.

Entries and settlements are counted by minute as they are written (counters.py); once a minute those minutes are added
to wider rows, after a mark that says how far that came. Depths of queues are given with it, and how long deliveries
took (tally.py), which of an older journal are counted in steps.

Each function works on the writing connection: hand it to `Journal.write`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.moment import from_micros, to_micros
from engine.journal.state import tally, uptime
from engine.journal.state.alerting import Outage, outages
from engine.journal.state.counters import middle_of
from engine.journal.state.tally import MINUTE, WIDEST, WIDTHS, TallyKey, begin, bucket_of

# Minutes are read from the counters where they are wanted; of these only what is wider.
WIDER: Final = tuple(width for width in WIDTHS if width > 60)
# A minute is counted to the end two minutes after it: what becomes of acknowledgements is written a moment later.
SETTLED_AFTER: Final = 2 * MINUTE
# What one step looks at of an older journal.
MINUTES_AT_ONCE: Final = 60
ENTRIES_AT_ONCE: Final = 1_000

# How far counters are added up.
MARK: Final = "SELECT upto FROM rolled WHERE id = 1"
# Begin, from the oldest minute on.
BEGIN: Final = "INSERT INTO rolled (id, upto, unfilled, since) VALUES (1, ?, 0, ?)"
# So far it came.
KEEP_MARK: Final = "UPDATE rolled SET upto = ? WHERE id = 1"
# Below which entry deliveries are still to be looked at, and only those settled before when.
UNFILLED: Final = "SELECT unfilled, since FROM tallied WHERE id = 1"
# Begin, with the newest entry.
BEGIN_FILLING: Final = "INSERT INTO tallied (id, unfilled, since) VALUES (1, ?, ?)"
# So far it came.
KEEP_UNFILLED: Final = "UPDATE tallied SET unfilled = ? WHERE id = 1"
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
# How long senders waited who were answered in some minutes, as an older program counted.
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


class Rolled(NamedTuple):
    """How many of a series there were, of a channel or destination, in the row that begins `at` (microseconds).

    Series: received and refused by channel, delivered and depth by destination, held by either, and those of a tally,
    ack of all channels together, sender and event of the whole time. `bucket`: of ack and delivery, which are
    histograms; else 0. A depth is the deepest. `is_coarse`: an older program counted in wide ranges, of which the
    bucket is the middle.
    """

    series: str
    who: str
    at: int
    bucket: int
    times: int
    is_coarse: bool = False


_Row = tuple[int, int, str, str, int]


def counted(connection: Connection, first: int, end: int) -> Iterator[Rolled]:
    """Yield what was counted as it was written in some minutes, which no row of one minute says again."""
    for at, channel, state, count in connection.execute(ARRIVED, (first, end)).fetchall():
        yield Rolled("received", channel, at, 0, count)
        if state in ARRIVALS:
            yield Rolled(ARRIVALS[state], channel, at, 0, count)
    for at, destination, state, count in connection.execute(ENDED, (first, end)).fetchall():
        if state in ENDS:
            yield Rolled(ENDS[state], destination, at, 0, count)
    for at, channel, bound, count in connection.execute(ANSWERED, (first, end)).fetchall():
        yield Rolled("ack", channel, at, bound, count)


def rolled(connection: Connection, width: int, since: datetime, until: datetime) -> list[Rolled]:
    """Return the rows of a width that begin in a time, with what was counted until now.

    For any connection of the journal, and as many rows whatever is in it.
    """
    first, end = to_micros(since), to_micros(until)
    rows = [Rolled(*row) for row in connection.execute(ROWS, (width, first, end)).fetchall()]
    mark = connection.execute(MARK).fetchone()
    latest = max(mark[0], first) if mark is not None else first
    if width not in WIDER:
        rows += counted(connection, first, end)
    elif mark is not None:
        minutes = counted(connection, latest, min(end, latest + MINUTES_AT_ONCE * MINUTE))
        rows += [one._replace(at=begin(one.at, width)) for one in minutes]
    found = [_refined(one) for one in rows if one.series != tally.DELIVERY]
    for query in (tally.DELIVERIES, tally.ACKNOWLEDGEMENTS, tally.NAMES):
        found += [Rolled(*row) for row in connection.execute(query, (width, first, end)).fetchall()]
    if width in WIDER:
        for query in (tally.ACKNOWLEDGEMENTS, tally.NAMES):
            late = [Rolled(*row) for row in connection.execute(query, (tally.MINUTE_SECONDS, latest, end)).fetchall()]
            found += [one._replace(at=begin(one.at, width)) for one in late]
    return found


def _refined(row: Rolled) -> Rolled:
    """Return a row with the bucket of the middle of what an older program counted up to a bound."""
    coarse = row.series == tally.ACK
    return row._replace(bucket=bucket_of(middle_of(row.bucket)), is_coarse=True) if coarse else row


def roll_up(
    connection: Connection, waits: Mapping[TallyKey, int], depths: Mapping[str, int], begun: datetime, now: datetime
) -> bool:
    """Add to the rows what was counted since; return whether something of an older journal is still to be added.

    `waits`: deliveries of this process since the last time. `depths`: what waits for each destination now; empty where
    another node says so. `begun`: when this process began to count waits.
    """
    moment = to_micros(now)
    uptime.seen(connection, now)
    before = _mark(connection, to_micros(begun), moment)
    found: Counter[_Row] = Counter()
    upto = _counted(connection, before, moment // MINUTE * MINUTE - SETTLED_AFTER, found)
    tally.widen(connection, before, upto)
    tally.add(connection, waits, moment)
    unfilled = _filled(connection, to_micros(begun), moment)
    _write(connection, found, moment)
    connection.executemany(
        DEEPEST,
        [(width, begin(moment, width), name, depth) for name, depth in depths.items() for width in WIDTHS],
    )
    connection.execute(KEEP_MARK, (upto,))
    for width, kept in WIDTHS.items():
        connection.execute(FORGET, (width, moment - kept))
    tally.forget(connection, moment)
    return bool(unfilled) or upto + SETTLED_AFTER + MINUTE <= moment


def _mark(connection: Connection, begun: int, now: int) -> int:
    row = connection.execute(MARK).fetchone()
    if row is not None:
        return int(row[0])
    oldest = connection.execute(OLDEST).fetchone()[0]
    upto = begin(begun if oldest is None else max(oldest, now - WIDTHS[WIDEST]), 60)
    connection.execute(BEGIN, (upto, begun))
    return upto


def _counted(connection: Connection, upto: int, until: int, found: Counter[_Row]) -> int:
    """Count the next minutes that are over; return the end of the last one."""
    end = min(upto + MINUTES_AT_ONCE * MINUTE, until)
    if end <= upto:
        return upto
    for one in counted(connection, upto, end):
        for width in WIDER:
            found[width, begin(one.at, width), one.series, one.who, one.bucket] += one.times
    return end


def _filled(connection: Connection, begun: int, now: int) -> int:
    """Count waits of older deliveries, newest first; return the next entry, 0 where all that charts show is done."""
    row = connection.execute(UNFILLED).fetchone()
    if row is None:
        row = (connection.execute(NEWEST).fetchone()[0], begun)
        connection.execute(BEGIN_FILLING, row)
    unfilled, since = row
    if not unfilled:
        return 0
    least, oldest = max(unfilled - ENTRIES_AT_ONCE, 0), now - WIDTHS[WIDEST]
    down = outages(connection, from_micros(oldest), from_micros(now))
    found: Counter[TallyKey] = Counter()
    for name, settled_at, received_at in connection.execute(DELIVERED, (least, unfilled, since)).fetchall():
        received, settled = from_micros(received_at), from_micros(settled_at)
        delayed = any(one.subject == name and _overlaps(one, received, settled) for one in down)
        found[tally.delivery_of(name, received, settled, delayed=delayed)] += 1
    tally.add(connection, found, now)
    before = connection.execute(BEFORE, (least,)).fetchone()
    left = int(before[0]) if before is not None and before[1] >= oldest else 0
    connection.execute(KEEP_UNFILLED, (left,))
    return left


def _overlaps(outage: Outage, began: datetime, ended: datetime) -> bool:
    return outage.began_at < ended and (outage.ended_at is None or outage.ended_at > began)


def _write(connection: Connection, found: Counter[_Row], now: int) -> None:
    rows = [(*row, count) for row, count in found.items() if row[1] >= now - WIDTHS[row[0]]]
    connection.executemany(ADD, rows)
