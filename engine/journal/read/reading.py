"""Reading the journal without an engine: lists, one entry in full, and counts; this connection can never write."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

import orjson

from engine.database.connection import Connection, by_name, json_list
from engine.database.connection import Row as Found
from engine.errors import JournalError, UnknownEntryError
from engine.journal.claim.claiming import request_of
from engine.journal.entry import FollowUpKind, RequestOutcome, State
from engine.journal.file.sealing import answer_at, configured, message_at, opened, plan_at, stored_patient
from engine.journal.moment import optional_from_micros
from engine.journal.opening import moment, open_reader
from engine.journal.read import counting
from engine.journal.read.searching import AMONG, BODY, EntrySearch, row_of
from engine.journal.read.streams import Stream, walk
from engine.journal.read.texts import attach
from engine.journal.read.views import (
    AttemptView,
    DeliveryView,
    EntryPage,
    EntryRow,
    EntryView,
    Filters,
    FollowUpView,
    JournalStats,
    Noted,
    Traffic,
)
from engine.journal.state import uptime
from engine.journal.state.alerting import Outage, outages
from engine.journal.state.rollup import Rolled, rolled

__all__ = ["Filters", "Reader"]

MOST_SECONDS: Final = 4.0
STEPS: Final = 10_000  # of SQLite's machine between two looks at the clock

# The state of an entry at each of its destinations, with its plan and what is in front of it.
_DELIVERIES: Final = """
SELECT d.destination, d.state, d.reason, d.notes, d.lanes, d.tries, d.due_at, d.settled_at, d.mapping, d.replay,
  d.settled_by AS by, (SELECT content FROM plan AS p WHERE p.seq = d.seq AND p.destination = d.destination) AS plan,
  (SELECT MAX(q.seq) FROM json_each(d.lanes) AS mine CROSS JOIN queue AS q
   WHERE q.destination = d.destination AND q.lane = mine.value AND q.seq < d.seq) AS waits_for
FROM delivery AS d WHERE d.seq = ? ORDER BY d.destination
"""
# The plans of what is held of entries (a JSON list).
_HELD_PLANS: Final = """
SELECT d.seq, d.destination, p.content FROM json_each(?) AS i CROSS JOIN delivery AS d ON d.seq = i.value
JOIN plan AS p ON p.seq = d.seq AND p.destination = d.destination WHERE d.state = 'held'
ORDER BY d.seq, d.destination
"""
# The requests of a delivery with their answers.
_ATTEMPTS: Final = """
SELECT a.number, a.method, a.url, a.query, a.headers, a.body, a.at, r.status, r.codes, r.failure, r.milliseconds,
  r.response, a.id
FROM attempt AS a LEFT JOIN answer AS r ON r.attempt = a.id WHERE a.seq = ? AND a.destination = ? ORDER BY a.number
"""
# What the destination was asked for because of a delivery.
_FOLLOW_UPS: Final = """
SELECT kind, state, reason, codes, patient, handle, tries, due_at, settled_at FROM follow_up
WHERE seq = ? AND destination = ?
"""
# An entry in full. A body that retention took leaves its acknowledgement, and when it went.
_WHOLE: Final = """
SELECT e.peer, e.version, e.event_at, e.sha256, e.mapping, e.batch, e.parent, p.raw,
  COALESCE(p.acknowledgement, w.acknowledgement) AS acknowledgement, w.at AS worn_at
FROM entry AS e LEFT JOIN payload AS p ON p.seq = e.seq LEFT JOIN worn AS w ON w.seq = e.seq WHERE e.seq = ?
"""
# The channels that entries came by.
_CHANNELS: Final = "SELECT e.seq, e.channel FROM json_each(?) AS one CROSS JOIN entry AS e ON e.seq = one.value"
# What an entry was edited to.
_CHILDREN: Final = "SELECT seq FROM entry WHERE parent = ? AND parent IS NOT NULL ORDER BY seq"

# The identities that share a lane with one that an entry names, as the lanes are now; a crowded lane is cut.
_LANE: Final = """
SELECT DISTINCT l.identity FROM entry AS e CROSS JOIN json_each(e.patients) AS named
JOIN lane_of AS own ON own.identity = named.value JOIN lane_of AS l ON l.lane = own.lane WHERE e.seq = ? LIMIT 200
"""
# The entries that name an identity: before a number, the newest first.
_OLDER: Final = "SELECT seq FROM named_in WHERE identity = ? AND seq < ? AND seq >= ? ORDER BY seq DESC"
# The same: after a number, the oldest first.
_NEWER: Final = "SELECT seq FROM named_in WHERE identity = ? AND seq > ? ORDER BY seq LIMIT ?"


class Reader:
    """Reads the journal of a data folder, with or without a running engine; a context manager."""

    def __init__(self, folder: Path) -> None:
        """Open for reading; JournalUnusableError where there is no journal."""
        self._folder = folder
        self._connection: Connection = open_reader(folder)
        try:
            self._sealing = opened(self._connection, configured())
        except BaseException:
            self._connection.close()
            raise
        self._attached = False

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End reading."""
        self._connection.close()

    def list(self, filters: Filters, limit: int = 50, before_seq: int | None = None) -> tuple[EntryRow, ...]:
        """Return up to `limit` entries, newest first, however long it takes.

        The next page begins `before_seq`, the last number of this one.
        """
        rows: tuple[EntryRow, ...] = ()
        while len(rows) < limit:
            page = self.page(filters, limit - len(rows), before_seq)
            rows += page.rows
            if page.before is None:
                break
            before_seq = page.before
        return rows

    def page(self, filters: Filters, limit: int = 50, before_seq: int | None = None) -> EntryPage:
        """Return a page of entries, newest first, within a bounded time."""
        if filters.text and not self._attached:
            self._attached = attach(self._connection, self._folder)
        if self._sealing is not None:
            patient = stored_patient(self._sealing, filters.patient)
            filters = replace(filters, patient=patient, visit=self._sealing.name(filters.visit))
        with self._moment():
            return EntrySearch(self._connection, filters).page(limit, before_seq)

    def show(self, seq: int) -> EntryView:
        """Return an entry in full; UnknownEntryError where there is none."""
        execute = self._connection.execute
        with self._moment():
            head = self._rows([seq])
            if not head:
                raise UnknownEntryError(f"there is no entry {seq}")
            whole = by_name(self._connection, _WHOLE, (seq,)).fetchone()
            deliveries = tuple(self._delivery(seq, row) for row in by_name(self._connection, _DELIVERIES, (seq,)))
            children = tuple(child for (child,) in execute(_CHILDREN, (seq,)).fetchall())
        worn_at, raw = optional_from_micros(whole["worn_at"]), whole["raw"]
        raw = self._opened(raw, message_at(seq)) if raw is not None else None
        sound = sha256(raw).digest() == whole["sha256"] if raw is not None else worn_at is not None
        return EntryView(
            head[0], whole["peer"], whole["version"], optional_from_micros(whole["event_at"]), whole["sha256"].hex(),
            whole["mapping"], whole["batch"], whole["parent"], raw or b"", whole["acknowledgement"] or b"", sound,
            worn_at, deliveries, children,
        )  # fmt: skip

    def raw(self, seq: int) -> bytes:
        """Return the bytes of an entry; empty where there is none, retention took them, or they cannot be unsealed."""
        row = self._connection.execute(BODY, (seq,)).fetchone()
        return self._opened(row[0], message_at(seq)) if row else b""

    def held_plans(self, seqs: Sequence[int]) -> tuple[tuple[int, str, bytes], ...]:
        """Return number, destination and plan of what is held of entries; of the plans those that are legible."""
        rows = self._connection.execute(_HELD_PLANS, (json_list(seqs),)).fetchall()
        return tuple((seq, name, self._opened(plan, plan_at(seq, name))) for seq, name, plan in rows)

    def channels(self, seqs: Sequence[int]) -> dict[int, str]:
        """Return the channels of entries, by their numbers."""
        return dict(self._connection.execute(_CHANNELS, (json_list(seqs),)).fetchall())

    def neighbours(self, seq: int, most: int) -> tuple[tuple[EntryRow, ...], tuple[EntryRow, ...]]:
        """Return at most `most` entries of the same patients before an entry and as many after it, each oldest first.

        An entry that shares a lane with them counts, as the lanes are now. Empty where the entry names nobody.
        """
        execute = self._connection.execute
        with self._moment():
            lane = [identity for (identity,) in execute(_LANE, (seq,)).fetchall()]
            older = list(islice(walk(self._connection, [Stream(_OLDER, (one,)) for one in lane], seq, 0), most))
            newer = {found for one in lane for (found,) in execute(_NEWER, (one, seq, most)).fetchall()}
            return self._rows(older), self._rows(sorted(newer)[:most])

    def _rows(self, seqs: Iterable[int]) -> tuple[EntryRow, ...]:
        rows = by_name(self._connection, AMONG, (json_list([*seqs]),))
        return tuple(sorted(map(row_of, rows), key=lambda row: row.seq))

    def stats(self) -> JournalStats:
        """Return counts of the whole journal."""
        with self._moment():
            return counting.stats(self._connection)

    def traffic(self, since: datetime, until: datetime, bucket_seconds: int) -> Traffic:
        """Return what came, ended and was answered in a time, in buckets of whole minutes or days."""
        with self._moment():
            return counting.traffic(self._connection, since, until, bucket_seconds)

    def rolled(self, width: int, since: datetime, until: datetime) -> tuple[Rolled, ...]:
        """Return rolled-up counts in rows of a width, in seconds."""
        with self._moment():
            return tuple(rolled(self._connection, width, since, until))

    def outages(self, since: datetime, until: datetime) -> tuple[Outage, ...]:
        """Return when a destination took nothing or the engine did not run, in a time that ends now or earlier."""
        with self._moment():
            found = (
                *uptime.stopped(uptime.runs(self._connection), since, until),
                *outages(self._connection, since, until),
            )
        return tuple(sorted(found, key=lambda one: one.began_at))

    def counted_since(self) -> datetime | None:
        """Return since when there is something to count: the first message, or when the engine first ran."""
        with self._moment():
            return counting.counted_since(self._connection)

    def noted(self, code: str, since: datetime | None, until: datetime | None) -> tuple[Noted, ...]:
        """Return each note that is a code or goes on from it, by channel, with how many entries bear it."""
        with self._moment():
            return tuple(counting.noted(self._connection, code, since, until))

    def bodies_noted(
        self, note: str, since: datetime | None, until: datetime | None, most: int
    ) -> tuple[tuple[int, bytes], ...]:
        """Return number and bytes of the newest entries with a note."""
        with self._moment():
            found = counting.bodies_noted(self._connection, note, since, until, most)
        return tuple((seq, self._opened(raw, message_at(seq))) for seq, raw in found)

    def _delivery(self, seq: int, row: Found) -> DeliveryView:
        name, state = row["destination"], State(row["state"])
        attempts = by_name(self._connection, _ATTEMPTS, (seq, name))
        follow_ups = self._follow_ups(seq, name)
        return DeliveryView(
            name, state, row["reason"], tuple(orjson.loads(row["notes"])), tuple(orjson.loads(row["lanes"])),
            row["tries"], optional_from_micros(row["due_at"]), optional_from_micros(row["settled_at"]), row["mapping"],
            bool(row["replay"]), row["by"], self._opened(row["plan"] or b"", plan_at(seq, name)),
            row["waits_for"] if state is State.WAITING else None,
            tuple(self._attempt(seq, name, attempt) for attempt in attempts), follow_ups.get(FollowUpKind.LOOKUP),
            follow_ups.get(FollowUpKind.NOTICE),
        )  # fmt: skip

    def _follow_ups(self, seq: int, destination: str) -> dict[FollowUpKind, FollowUpView]:
        return {
            FollowUpKind(row["kind"]): FollowUpView(
                row["state"], row["reason"], tuple(orjson.loads(row["codes"])), row["patient"], row["handle"],
                row["tries"], optional_from_micros(row["due_at"]), optional_from_micros(row["settled_at"]),
            )
            for row in by_name(self._connection, _FOLLOW_UPS, (seq, destination))
        }  # fmt: skip

    def _attempt(self, seq: int, destination: str, row: Found) -> AttemptView:
        intent = request_of(self._sealing, seq, destination, row)
        if row["status"] is None:
            return AttemptView(intent, None)
        codes, answer = tuple(orjson.loads(row["codes"])), self._opened(row["response"] or b"", answer_at(row["id"]))
        outcome = RequestOutcome(intent.number, row["status"], codes, row["failure"], row["milliseconds"], answer)
        return AttemptView(intent, outcome)

    def _opened(self, content: bytes, place: str) -> bytes:
        """Return what is stored at a place; empty where the disk changed it."""
        return content if self._sealing is None else self._sealing.legible(content, place)

    @contextmanager
    def _moment(self) -> Iterator[None]:
        """Read everything within as of one moment, which keeps the write-ahead log: JournalError after 4 seconds."""
        try:
            with moment(self._connection, MOST_SECONDS):
                yield
        except TimeoutError as error:
            raise JournalError("that took too long to look up: narrow it, by --since or a filter more") from error
