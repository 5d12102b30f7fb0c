"""Retention: bodies and, later, whole entries leave the journal by state and age, in small batches.

Nothing unfinished ever leaves. A body is the message, the requests (with what their URLs ask by) and answers made of
it, and its plan; what stays says that it was there: the entry, its states, codes, times and acknowledgement.
Identities, aliases and ownership are not of any entry and are left alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final

from engine import fault
from engine.database.connection import Connection, by_name, json_list
from engine.journal.entry import LEAST_FINISHED, UNFINISHED, State
from engine.journal.file.sealing import shred
from engine.journal.moment import to_micros

BATCH: Final = 500

# The next entries that still have a body.
WITH_BODY: Final = """
SELECT e.seq, e.channel, e.state, e.received_at FROM payload AS p JOIN entry AS e ON e.seq = p.seq
WHERE p.seq > ? ORDER BY p.seq LIMIT ?
"""
# The next entries.
ENTRIES: Final = "SELECT seq, channel, state, received_at FROM entry WHERE seq > ? ORDER BY seq LIMIT ?"
# The deliveries of entries, which tell whether and when they ended.
DELIVERIES: Final = """
SELECT seq, state, settled_at FROM delivery WHERE seq IN (SELECT value FROM json_each(?))
"""
# The newest entry, which stays: its number must not be given again.
NEWEST: Final = "SELECT COALESCE(MAX(seq), 0) FROM entry"
# Keep of a body when it went, and its acknowledgement, which a resend is still answered with.
WEAR: Final = """
INSERT INTO worn (seq, acknowledgement, at)
SELECT seq, acknowledgement, ? FROM payload WHERE seq IN (SELECT value FROM json_each(?))
"""
# Take the bodies of entries (a JSON list), and all that was made of them.
BODY: Final[tuple[str, ...]] = (
    "DELETE FROM payload WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM plan WHERE seq IN (SELECT value FROM json_each(?))",
    """
UPDATE answer SET response = x'' WHERE attempt IN (
  SELECT a.id FROM json_each(?) AS mine CROSS JOIN attempt AS a WHERE a.seq = mine.value)
""",
    """
UPDATE attempt SET body = x'', headers = '[]', query = x'', crc = NULL,
  url = CASE WHEN instr(url, '?') > 0 THEN substr(url, 1, instr(url, '?') - 1) ELSE url END
WHERE seq IN (SELECT value FROM json_each(?))
""",
    "UPDATE edit SET changes = '[]' WHERE seq IN (SELECT value FROM json_each(?))",
)
# Take entries (a JSON list) whole.
WHOLE: Final[tuple[str, ...]] = (
    """
DELETE FROM noted WHERE (code, seq) IN (
  SELECT note.atom, d.seq FROM json_each(?1) AS mine CROSS JOIN delivery AS d, json_each(d.notes) AS note
  WHERE d.seq = mine.value
  UNION ALL
  SELECT f.reason, f.seq FROM json_each(?1) AS mine CROSS JOIN follow_up AS f WHERE f.seq = mine.value
  UNION ALL
  SELECT flag.atom, e.seq FROM json_each(?1) AS mine CROSS JOIN entry AS e, json_each(e.flags) AS flag
  WHERE e.seq = mine.value)
""",
    """
DELETE FROM answer WHERE attempt IN (
  SELECT a.id FROM json_each(?) AS mine CROSS JOIN attempt AS a WHERE a.seq = mine.value)
""",
    "DELETE FROM attempt WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM plan WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM payload WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM worn WHERE seq IN (SELECT value FROM json_each(?))",
    """
DELETE FROM named_in WHERE (identity, seq) IN (
  SELECT who.value, e.seq FROM json_each(?) AS mine CROSS JOIN entry AS e, json_each(e.patients) AS who
  WHERE e.seq = mine.value)
""",
    "DELETE FROM edit WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM replayed WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM follow_up WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM delivery WHERE seq IN (SELECT value FROM json_each(?))",
    "DELETE FROM entry WHERE seq IN (SELECT value FROM json_each(?))",
)


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long the body of an ended entry is kept, and how long the entry itself."""

    bodies: timedelta
    entries: timedelta


# What of an entry is of an age: its body, or all of it.
BODIES: Final = attrgetter("bodies")
ENTRIES_WHOLE: Final = attrgetter("entries")

_Ages = Mapping[str, Mapping[State, timedelta]]
Rules = Mapping[str, Mapping[State, RetentionPolicy]]
"""What is kept, by channel and state at the end; "" speaks for channels not named. Without a rule all stays."""


@dataclass(frozen=True, slots=True)
class PrunedPage:
    """What a page took away, and after which numbers the next one begins: -1 where that walk is at its end."""

    bodies: int
    entries: int
    next_body: int
    next_entry: int

    @property
    def finished(self) -> bool:
        """Whether a whole walk is done."""
        return self.next_body < 0 and self.next_entry < 0


@dataclass(frozen=True, slots=True)
class _Old:
    """Entries of one page whose time has come, the last number looked at, and whether the walk is at its end."""

    seqs: tuple[int, ...]
    last: int
    ended: bool


def prune(connection: Connection, rules: Rules, now: datetime, after_body: int = 0, after_entry: int = 0) -> PrunedPage:
    """Look at one page of bodies and one of entries after these numbers; take away those whose time has come.

    For the writing connection, inside its transaction. A number below 0 leaves that walk out.
    """
    bodies = entries = _NOTHING
    if after_body >= 0:
        bodies = _old(connection, WITH_BODY, after_body, _ages(rules, BODIES), now)
        _take(connection, bodies.seqs, BODY, now)
    if after_entry >= 0:
        entries = _old(connection, ENTRIES, after_entry, _ages(rules, ENTRIES_WHOLE), now)
        _take(connection, entries.seqs, WHOLE, None)
    if bodies.seqs or entries.seqs:
        shred(connection)
    fault.point("F23")
    return PrunedPage(len(bodies.seqs), len(entries.seqs), _next(bodies), _next(entries))


def due(connection: Connection, rules: Rules, now: datetime) -> tuple[int, int]:
    """Return how many bodies and entries a whole walk would take away now; for any connection."""
    counts = []
    for query, age in ((WITH_BODY, BODIES), (ENTRIES, ENTRIES_WHOLE)):
        count, page = 0, _Old((), 0, ended=False)
        while not page.ended:
            page = _old(connection, query, page.last, _ages(rules, age), now)
            count += len(page.seqs)
        counts.append(count)
    return counts[0], counts[1]


def _next(page: _Old) -> int:
    return -1 if page.ended else page.last


def _old(connection: Connection, query: str, after: int, ages: _Ages, now: datetime) -> _Old:
    rows = by_name(connection, query, (after, BATCH)).fetchall()
    if not rows:
        return _NOTHING
    shortest = min((age for by_state in ages.values() for age in by_state.values()), default=None)
    ended = len(rows) < BATCH or shortest is None or rows[-1]["received_at"] > to_micros(now - shortest)
    ends = _ends(connection, [row["seq"] for row in rows])
    # Numbers count on from the newest entry, so that one stays.
    newest = connection.execute(NEWEST).fetchone()[0]
    others = ages.get("", {})
    old = []
    for row in rows:
        end, at = ends.get(row["seq"], (State(row["state"]), row["received_at"]))
        age = ages.get(row["channel"], others).get(end)
        if age is not None and row["seq"] != newest and max(at or 0, row["received_at"]) <= to_micros(now - age):
            old.append(row["seq"])
    return _Old(tuple(old), rows[-1]["seq"], ended)


def _ends(connection: Connection, seqs: list[int]) -> dict[int, tuple[State, int | None]]:
    """Return state and last settling of those that have deliveries."""
    found: dict[int, list[tuple[State, int | None]]] = {}
    for row in by_name(connection, DELIVERIES, (json_list(seqs),)):
        found.setdefault(row["seq"], []).append((State(row["state"]), row["settled_at"]))
    return {seq: _end(deliveries) for seq, deliveries in found.items()}


def _take(connection: Connection, seqs: tuple[int, ...], statements: tuple[str, ...], worn_at: datetime | None) -> None:
    if not seqs:
        return
    numbers = json_list(seqs)
    if worn_at is not None:
        connection.execute(WEAR, (to_micros(worn_at), numbers))
    for statement in statements:
        connection.execute(statement, (numbers,))


_NOTHING: Final = _Old((), 0, ended=True)


def _end(deliveries: list[tuple[State, int | None]]) -> tuple[State, int | None]:
    states = {state for state, _ in deliveries}
    return next(state for state in LEAST_FINISHED if state in states), max(at or 0 for _, at in deliveries)


def _ages(rules: Rules, age: Callable[[RetentionPolicy], timedelta]) -> _Ages:
    return {
        channel: {state: age(kept) for state, kept in by_state.items() if state not in UNFINISHED}
        for channel, by_state in rules.items()
    }
