"""Reading the journal without an engine: lists, one entry in full, and counts; this connection can never write."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Final

import orjson

from engine.errors import UnknownEntryError
from engine.journal.database import Connection, open_reader
from engine.journal.entry import UNFINISHED, AckOutcome, State
from engine.journal.moment import from_micros, optional_from_micros, to_micros
from engine.journal.streams import Stream, walk
from engine.journal.views import AttemptView, DeliveryView, EntryView, Filters, Page, Row, Stats

__all__ = ["Filters", "Reader"]

# Where an entry stands: at its least finished delivery, or as the door left it.
_STATE: Final = """
COALESCE((SELECT d.state FROM delivery AS d WHERE d.seq = e.seq ORDER BY CASE d.state
  WHEN 'waiting' THEN 0 WHEN 'received' THEN 1 WHEN 'claimed' THEN 2 WHEN 'held' THEN 3 WHEN 'rejected' THEN 4
  WHEN 'discarded' THEN 5 WHEN 'delivered' THEN 6 ELSE 7 END LIMIT 1), e.state)
"""
_REASON: Final = """
COALESCE(NULLIF(e.reason, ''), (SELECT d.reason FROM delivery AS d WHERE d.seq = e.seq AND d.reason <> ''
  ORDER BY d.destination LIMIT 1), '')
"""
_COLUMNS: Final = (
    "SELECT e.seq, e.channel, e.source, e.control_id, e.event, e.visit, e.received_at, "  # noqa: S608 - constants
    + _STATE
    + " AS state_now, "
    + _REASON
    + ", e.ack_code, e.ack_outcome, e.flags, e.receipts FROM entry AS e"
)
_DELIVERIES: Final = """
SELECT d.destination, d.state, d.reason, d.notes, d.lanes, d.tries, d.due_at, d.settled_at, d.mapping, d.replay,
  d.settled_by, (SELECT content FROM plan AS p WHERE p.seq = d.seq AND p.destination = d.destination),
  (SELECT MAX(q.seq) FROM json_each(d.lanes) AS mine CROSS JOIN queue AS q
   WHERE q.destination = d.destination AND q.lane = mine.value AND q.seq < d.seq)
FROM delivery AS d WHERE d.seq = ? ORDER BY d.destination
"""
_ATTEMPTS: Final = """
SELECT a.number, a.method, a.url, a.headers, a.body, a.at, r.status, r.codes, r.failure, r.milliseconds, r.response
FROM attempt AS a LEFT JOIN answer AS r ON r.attempt = a.id WHERE a.seq = ? AND a.destination = ? ORDER BY a.number
"""
_WHOLE: Final = """
SELECT e.peer, e.version, e.event_at, e.sha256, e.mapping, e.batch, e.parent, p.raw, p.acknowledgement
FROM entry AS e LEFT JOIN payload AS p ON p.seq = e.seq WHERE e.seq = ?
"""
_CHILDREN: Final = "SELECT seq FROM entry WHERE parent = ? AND parent IS NOT NULL ORDER BY seq"

# The identities that share a lane with one that an entry names, as the lanes are now; a crowded lane is cut.
_LANE: Final = """
SELECT DISTINCT l.identity FROM entry AS e CROSS JOIN json_each(e.patients) AS named
JOIN lane_of AS own ON own.identity = named.value JOIN lane_of AS l ON l.lane = own.lane WHERE e.seq = ? LIMIT 200
"""
_OLDER: Final = "SELECT seq FROM named_in WHERE identity = ? AND seq < ? AND seq >= ? ORDER BY seq DESC"
_NEWER: Final = "SELECT seq FROM named_in WHERE identity = ? AND seq > ? ORDER BY seq LIMIT ?"
_ROWS: Final = f"{_COLUMNS} WHERE e.seq IN (SELECT value FROM json_each(?)) ORDER BY e.seq"  # noqa: S608 - constants
_BY_DOOR: Final = "SELECT state, COUNT(*) FROM entry WHERE state <> 'received' GROUP BY state"
_BY_DELIVERY: Final = """
SELECT destination, state, COUNT(*), MIN(seq) FROM delivery WHERE state <> 'delivered' GROUP BY destination, state
"""
_TOTALS: Final = "SELECT COUNT(*), COALESCE(MAX(seq), 0) FROM entry"
_RECEIVED_AT: Final = "SELECT received_at FROM entry WHERE seq = ?"

# What is not delivered stands in an index of its own, and so does what has no deliveries.
_IN_STATE: Final = """
e.seq IN (SELECT seq FROM delivery WHERE state = ? AND state <> 'delivered'
  UNION ALL SELECT seq FROM entry WHERE state = ? AND state <> 'received')
"""
_OF_PATIENT: Final = """
e.seq IN (SELECT n.seq FROM lane_of AS l JOIN named_in AS n ON n.identity = l.identity WHERE l.key = ?)
"""
_OF_VALUE: Final = """
e.seq IN (SELECT n.seq FROM lane_of AS l JOIN named_in AS n ON n.identity = l.identity
  WHERE substr(l.key, -length(?)) = ?)
"""


class Reader:
    """Reads the journal of a data folder, beside a running engine or without one; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Open for reading; JournalUnusableError where there is no journal."""
        self._connection: Connection = open_reader(folder)

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End reading."""
        self._connection.close()

    def list(self, filters: Filters, limit: int = 50, before_seq: int | None = None) -> tuple[Row, ...]:
        """Return up to `limit` entries, newest first.

        The next page begins `before_seq`, the last number of this one.
        """
        where, values = _conditions(filters)
        if before_seq is not None:
            where.append("e.seq < ?")
            values.append(before_seq)
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        sql = f"{_COLUMNS}{condition} ORDER BY e.seq DESC LIMIT ?"
        with self._moment():
            rows = self._connection.execute(sql, (*values, limit)).fetchall()
        return tuple(_row(row) for row in rows)

    def page(self, filters: Filters, limit: int = 50, before_seq: int | None = None) -> Page:
        """Return a page of entries, newest first."""
        rows = self.list(filters, limit, before_seq)
        return Page(rows, rows[-1].seq if len(rows) == limit else None, None)

    def show(self, seq: int) -> EntryView:
        """Return an entry in full; UnknownEntryError where there is none."""
        execute = self._connection.execute
        with self._moment():
            head = execute(f"{_COLUMNS} WHERE e.seq = ?", (seq,)).fetchone()
            if head is None:
                raise UnknownEntryError(f"there is no entry {seq}")
            peer, version, event_at, digest, mapping, batch, parent, raw, acknowledgement = execute(
                _WHOLE, (seq,)
            ).fetchone()
            deliveries = tuple(self._delivery(seq, row) for row in execute(_DELIVERIES, (seq,)).fetchall())
            children = tuple(child for (child,) in execute(_CHILDREN, (seq,)).fetchall())
        raw, acknowledgement = raw or b"", acknowledgement or b""
        return EntryView(
            _row(head), peer, version, optional_from_micros(event_at), digest.hex(), mapping, batch, parent, raw,
            acknowledgement, sha256(raw).digest() == digest, deliveries, children,
        )  # fmt: skip

    def beside(self, seq: int, most: int) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
        """Return at most `most` entries of the same patients before an entry and as many after it, each oldest first.

        Whoever shares a lane with them counts, as the lanes are now. Empty where the entry names nobody.
        """
        execute = self._connection.execute
        with self._moment():
            lane = [identity for (identity,) in execute(_LANE, (seq,)).fetchall()]
            older = list(islice(walk(self._connection, [Stream(_OLDER, (one,)) for one in lane], seq, 0), most))
            newer = {found for one in lane for (found,) in execute(_NEWER, (one, seq, most)).fetchall()}
            return self._rows(older), self._rows(sorted(newer)[:most])

    def _rows(self, seqs: Iterable[int]) -> tuple[Row, ...]:
        rows = self._connection.execute(_ROWS, (orjson.dumps([*seqs]).decode(),)).fetchall()
        return tuple(_row(row) for row in rows)

    def stats(self) -> Stats:
        """Return counts of the whole journal."""
        execute = self._connection.execute
        with self._moment():
            entries, last = execute(_TOTALS).fetchone()
            at_door = dict(execute(_BY_DOOR).fetchall())
            deliveries: dict[str, dict[str, int]] = {}
            open_seqs = []
            for destination, state, count, first in execute(_BY_DELIVERY).fetchall():
                deliveries.setdefault(destination, {})[state] = count
                if State(state) in UNFINISHED:
                    open_seqs.append(first)
            oldest = execute(_RECEIVED_AT, (min(open_seqs),)).fetchone()[0] if open_seqs else None
        return Stats(entries, last, at_door, deliveries, optional_from_micros(oldest))

    def _delivery(self, seq: int, row: tuple[Any, ...]) -> DeliveryView:
        name, state, reason, notes, lanes, tries, due, settled, mapping, replay, by, plan, waits_for = row
        attempts = self._connection.execute(_ATTEMPTS, (seq, name)).fetchall()
        return DeliveryView(
            name, State(state), reason, tuple(orjson.loads(notes)), tuple(orjson.loads(lanes)), tries,
            optional_from_micros(due), optional_from_micros(settled), mapping, bool(replay), by, plan or b"",
            waits_for if state == State.WAITING.value else None, tuple(_attempt(attempt) for attempt in attempts),
        )  # fmt: skip

    @contextmanager
    def _moment(self) -> Iterator[None]:
        """Read everything within as of one moment."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")


def _conditions(filters: Filters) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []
    for column in ("channel", "source", "event", "control_id", "visit"):
        wanted = getattr(filters, column)
        if wanted:
            where.append(f"e.{column} = ?")
            values.append(wanted)
    if filters.visit:
        where.append("e.visit <> ''")
    if filters.since is not None:
        where.append("e.received_at >= ?")
        values.append(to_micros(filters.since))
    if filters.until is not None:
        where.append("e.received_at < ?")
        values.append(to_micros(filters.until))
    if filters.state is not None:
        where.append("state_now = ?")
        values.append(filters.state.value)
    if filters.state is not None and filters.state is not State.DELIVERED:
        where.append(_IN_STATE)
        values.extend([filters.state.value] * 2)
    if filters.patient and "|" in filters.patient:
        where.append(_OF_PATIENT)
        values.append(filters.patient)
    elif filters.patient:
        where.append(_OF_VALUE)
        values.extend([f"|{filters.patient}"] * 2)
    return where, values


def _row(row: tuple[Any, ...]) -> Row:
    seq, channel, source, control_id, event, visit, received, state, reason, code, outcome, flags, receipts = row
    return Row(
        seq, channel, source, control_id, event, visit, from_micros(received), State(state), reason, code,
        AckOutcome(outcome), tuple(orjson.loads(flags)), receipts,
    )  # fmt: skip


def _attempt(row: tuple[Any, ...]) -> AttemptView:
    number, method, url, headers, body, at, status, codes, failure, milliseconds, response = row
    return AttemptView(
        number, method, url, tuple((name, value) for name, value in orjson.loads(headers)), body, from_micros(at),
        status, tuple(orjson.loads(codes or "[]")), failure or "", milliseconds or 0.0, response or b"",
    )  # fmt: skip
