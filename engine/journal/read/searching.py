"""Searching the journal: whatever is asked together, newest first, within a bounded time.

The filters name streams of entry numbers (filtering.py). The shortest of them is walked, a chunk at a time, and each
entry held against all that is asked, until the page is full, the stream ends, or the time for one answer is over; then
the answer says how far it came, and the next page goes on there.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import orjson

from engine.database.connection import Connection, by_name, json_list
from engine.database.connection import Row as Found
from engine.journal.entry import AckOutcome, State
from engine.journal.file.sealing import NAMED
from engine.journal.moment import from_micros
from engine.journal.read import texts
from engine.journal.read.filtering import ALL, STATE_NOW, StreamFilter, wanted
from engine.journal.read.streams import EVERYTHING, Stream, count, span, walk
from engine.journal.read.views import EntryPage, EntryRow, Filters
from engine.journal.read.wording import Phrases, text_of

SECONDS: Final = 0.4
FEW: Final = 2_000
MANY: Final = 100_000
CHUNK: Final = 64
MOST_CHUNK: Final = 4096
QUICK_SECONDS: Final = 0.04

# Its reason: intake's, or that of the destination where least is finished: of one that waits for a person before one
# that is under way, which may have none, and before those that have ended.
REASON_NOW: Final = """
COALESCE(NULLIF(e.reason, ''), (SELECT d.reason FROM delivery AS d WHERE d.seq = e.seq
  AND (d.reason <> '' OR d.state IN ('waiting', 'received', 'claimed'))
  ORDER BY CASE d.state WHEN 'held' THEN 0 WHEN 'rejected' THEN 1 WHEN 'waiting' THEN 2 WHEN 'received' THEN 2
  WHEN 'claimed' THEN 2 ELSE 3 END, d.destination LIMIT 1), '')
"""
# What a row is read from, of an entry `e`.
COLUMNS: Final = f"""
SELECT e.seq, e.channel, e.source, e.control_id, e.event, e.visit, e.received_at, {STATE_NOW} AS state,
  {REASON_NOW} AS reason, e.ack_code, e.ack_outcome, e.flags, e.receipts
"""
# The rows of entries (a JSON list).
AMONG: Final = f"{COLUMNS} FROM json_each(?) AS one CROSS JOIN entry AS e ON e.seq = one.value"
# A list of numbers has an order; what a database joins with it need not have that.
NEWEST_FIRST: Final = "ORDER BY e.seq DESC"
# The bytes of an entry.
BODY: Final = "SELECT raw FROM payload WHERE seq = ?"
# When the newest entry up to a number came in.
RECEIVED_AT: Final = "SELECT received_at FROM entry WHERE seq <= ? ORDER BY seq DESC LIMIT 1"


class EntrySearch:
    """One search on a reading connection, as of one moment; the caller begins and ends the transaction."""

    def __init__(self, connection: Connection, filters: Filters, clock: Callable[[], float] = time.monotonic) -> None:
        """Read where to look; `clock` counts seconds."""
        self._connection = connection
        self._clock = clock
        self._phrases, self._charsets = Phrases(filters.text), filters.charsets
        self._wanted = list(wanted(connection, filters))
        if self._phrases:
            self._wanted.insert(0, StreamFilter(texts.streams(connection, self._phrases), None))
        self._least, self._end = span(connection, filters.since, filters.until)
        self._last = EVERYTHING
        conditions = [one.condition for one in self._wanted if one.condition]
        where = " AND ".join(condition.sql for condition in conditions)
        self._sql = f"{AMONG} WHERE {where} {NEWEST_FIRST}" if where else f"{AMONG} {NEWEST_FIRST}"
        self._values = tuple(value for condition in conditions for value in condition.values)

    def page(self, limit: int, before: int | None, seconds: float | None = SECONDS) -> EntryPage:
        """Return up to `limit` rows with smaller numbers than `before`; no bound of time where `seconds` is None."""
        over = self._clock() + seconds if seconds is not None else float("inf")
        rows: list[EntryRow] = []
        for found in self._chunks(min(before or EVERYTHING, self._end), over):
            rows += found
            if len(rows) > limit:
                return EntryPage(tuple(rows[:limit]), rows[limit - 1].seq, None)
        if self._last == EVERYTHING:
            return EntryPage(tuple(rows), None, None)
        if len(rows) == limit:
            return EntryPage(tuple(rows), rows[-1].seq, None)
        at = self._connection.execute(RECEIVED_AT, (self._last,)).fetchone()
        return EntryPage(tuple(rows), self._last, from_micros(at[0]))

    def _chunks(self, before: int, over: float) -> Iterator[list[EntryRow]]:
        """Yield the matching rows of one chunk after the other; `_last` is where the time ended, if it did."""
        streams = self._shortest(before)
        numbers = walk(self._connection, streams, before, self._least)
        size = CHUNK
        while chunk := list(islice(numbers, size)):
            began = self._clock()
            yield self._matching(chunk, over)
            if self._last != EVERYTHING:
                return
            if self._clock() > over:
                self._last = chunk[-1]
                return
            if self._clock() - began < QUICK_SECONDS:
                size = min(size * 2, MOST_CHUNK)

    def _matching(self, chunk: list[int], over: float) -> list[EntryRow]:
        listed = json_list(chunk)
        rows = [row_of(row) for row in by_name(self._connection, self._sql, (listed, *self._values))]
        if not self._phrases:
            return rows
        found = []
        for row in rows:
            if self._is_said(row):
                found.append(row)
            if self._clock() > over:
                self._last = row.seq
                break
        return found

    def _is_said(self, row: EntryRow) -> bool:
        body = self._connection.execute(BODY, (row.seq,)).fetchone()
        return body is not None and self._phrases.are_in(text_of(body[0], self._charsets.get(row.channel, "")))

    def _shortest(self, before: int) -> Sequence[Stream]:
        """Return the streams of the filter that lets least through; all entries where none does so by an index."""
        known = [one.streams for one in self._wanted if one.streams is not None]
        for most in (FEW, MANY) if len(known) > 1 else ():
            counts = [self._count(streams, before, most) for streams in known]
            if min(counts) < most:
                return known[counts.index(min(counts))]
        return known[0] if known else (ALL,)

    def _count(self, streams: Sequence[Stream], before: int, most: int) -> int:
        found = 0
        for stream in streams:
            found += count(self._connection, stream, before, self._least, most - found)
            if found >= most:
                break
        return found


def row_of(row: Found) -> EntryRow:
    """Return a row that was read with COLUMNS; the visit of a sealed journal is in the message only."""
    return EntryRow(
        row["seq"], row["channel"], row["source"], row["control_id"], row["event"],
        "" if row["visit"].startswith(NAMED) else row["visit"], from_micros(row["received_at"]), State(row["state"]),
        row["reason"], row["ack_code"], AckOutcome(row["ack_outcome"]), tuple(orjson.loads(row["flags"])),
        row["receipts"],
    )  # fmt: skip
