"""Tallies: how long acknowledgements and deliveries took, who sent and which events came, in rows of four widths.

A wait is counted in one of ten buckets to each doubling: what is shown of it, the geometric middle of its bucket, is
within 4 % of what it was. What is counted with a message goes to its minute alone, and from there once a minute to the
wider rows; a chart of these adds the minutes since. Senders and events are counted by name up to a limit.

Each function works on the writing connection.
"""

import math
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from engine.database.connection import Connection
from engine.journal.moment import to_micros

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
DAY: Final = 86_400 * SECOND
# Widths of rows in seconds, and how long they stay.
MINUTE_SECONDS: Final = 60
WIDTHS: Final[Mapping[int, int]] = {MINUTE_SECONDS: 2 * DAY, 600: 8 * DAY, 3_600: 40 * DAY, 21_600: 40 * DAY}
WIDEST: Final = max(WIDTHS)
# Buckets to each doubling of a wait in microseconds.
BUCKETS: Final = 10

# What is counted: acknowledgements by channel and deliveries by destination, as histograms; deliveries that waited
# through an outage, by destination; messages by sender (MSH-3|MSH-4) and by event.
ACK: Final = "ack"
DELIVERY: Final = "delivery"
DELAYED: Final = "delayed"
SENDER: Final = "sender"
EVENT: Final = "event"
# The names of a series in one row of the widest; what has another name counts as others.
MOST_NAMES: Final = 100
OTHERS: Final = "*"

# Add to a row.
ADD: Final = """
INSERT INTO tally (width, at, series, who, bucket, count) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (width, at, series, who, bucket) DO UPDATE SET count = tally.count + excluded.count
"""
# Add the minutes of some time to the rows of a width (in seconds, and in microseconds): what is counted with messages.
WIDEN: Final = """
INSERT INTO tally (width, at, series, who, bucket, count)
SELECT CAST(?1 AS BIGINT), at / CAST(?2 AS BIGINT) * CAST(?2 AS BIGINT), series, who, bucket, SUM(count) FROM tally
WHERE width = 60 AND at >= ?3 AND at < ?4 AND series IN ('ack', 'sender', 'event') GROUP BY 2, series, who, bucket
ON CONFLICT (width, at, series, who, bucket) DO UPDATE SET count = tally.count + excluded.count
"""
# Of the rows of a width: how long deliveries took.
DELIVERIES: Final = """
SELECT series, who, at, bucket, count FROM tally WHERE width = ? AND at >= ? AND at < ?
AND series IN ('delivery', 'delayed')
"""
# How long acknowledgements took, of all channels together.
ACKNOWLEDGEMENTS: Final = """
SELECT 'ack' AS series, '' AS who, at, bucket, SUM(count) FROM tally WHERE width = ? AND at >= ? AND at < ?
AND series = 'ack' GROUP BY at, bucket
"""
# Senders and events, each as of the first row in which it is.
NAMES: Final = """
SELECT series, who, MIN(at), 0 AS bucket, SUM(count) FROM tally WHERE width = ? AND at >= ? AND at < ?
AND series IN ('sender', 'event') GROUP BY series, who
"""
# Drop what no chart shows any more.
FORGET: Final = "DELETE FROM tally WHERE width = ? AND at < ?"


class TallyKey(NamedTuple):
    """What is counted in the row that begins `at` (microseconds since 1970); `bucket`: of a histogram, else 0."""

    at: int
    series: str
    who: str
    bucket: int = 0


def bucket_of(micros: int) -> int:
    """Return the bucket of a wait in microseconds; all of at most one microsecond are in bucket 0."""
    return math.ceil(BUCKETS * math.log2(micros)) if micros > 1 else 0


def milliseconds_of(bucket: int) -> float:
    """Return the geometric middle of a bucket, in milliseconds."""
    return float(2 ** ((bucket - 0.5) / BUCKETS)) / 1_000


def wait_of(series: str, who: str, begun: int, ended: int) -> TallyKey:
    """Return where a wait between two moments in microseconds is counted: in the minute in which it ended."""
    return TallyKey(ended // MINUTE * MINUTE, series, who, bucket_of(ended - begun))


def delivery_of(destination: str, received_at: datetime, settled_at: datetime, *, delayed: bool) -> TallyKey:
    """Return where a delivery is counted; one that waited through an outage is no measure of the destination."""
    ended = to_micros(settled_at)
    if delayed:
        return TallyKey(ended // MINUTE * MINUTE, DELAYED, destination)
    return wait_of(DELIVERY, destination, to_micros(received_at), ended)


def add(connection: Connection, counts: Mapping[TallyKey, int], now: int | None = None) -> None:
    """Add counts of minutes to the rows of all widths; of what is too old by `now` nothing."""
    rows: Counter[tuple[int, int, str, str, int]] = Counter()
    for (at, series, who, bucket), count in counts.items():
        for width, kept in WIDTHS.items():
            if now is None or at >= now - kept:
                rows[width, begin(at, width), series, who, bucket] += count
    if rows:
        connection.executemany(ADD, [(*row, count) for row, count in rows.items()])


def add_minutes(connection: Connection, counts: Mapping[TallyKey, int]) -> None:
    """Add counts of minutes to the rows of a minute; `widen` adds them to the others."""
    if counts:
        connection.executemany(ADD, [(MINUTE_SECONDS, *key, count) for key, count in counts.items()])


def widen(connection: Connection, first: int, end: int) -> None:
    """Add what was counted in some minutes to the wider rows."""
    for width in WIDTHS:
        if width > MINUTE_SECONDS and end > first:
            connection.execute(WIDEN, (width, width * SECOND, first, end))


def forget(connection: Connection, now: int) -> None:
    """Drop what no chart shows any more."""
    for width, kept in WIDTHS.items():
        connection.execute(FORGET, (width, now - kept))


def begin(at: int, width: int) -> int:
    """Return when the row of a width begins in which a moment is, in microseconds."""
    return at // (width * SECOND) * (width * SECOND)


class NameLimit:
    """Bounds the names of senders and events: what they call themselves is theirs to choose."""

    def __init__(self) -> None:
        self._row = 0
        self._known: dict[str, set[str]] = {}

    def key(self, at: int, series: str, name: str) -> TallyKey:
        """Return where a message is counted; as one of the others, where too many names are known of these hours."""
        row = begin(at, WIDEST)
        if row > self._row:
            self._row = row
            self._known.clear()
        known = self._known.setdefault(series, set())
        if name not in known:
            if len(known) >= MOST_NAMES:
                name = OTHERS
            else:
                known.add(name)
        return TallyKey(at // MINUTE * MINUTE, series, name)
