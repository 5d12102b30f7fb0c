"""Proving a journal sound: the file itself, the digest of every body, and what must be true among the tables.

Each rule is one query of the rows that break it; a query sees one moment, so a running engine does not disturb it.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from engine.database.connection import Connection, Row, by_name
from engine.database.sqlite import SqliteConnection, SqliteError, failure_of
from engine.errors import SealError
from engine.journal.file.sealing import Sealing, message_at
from engine.journal.opening import open_reader

# Bodies with the digest that they had when they came in. Both numbers are bound, or PostgreSQL reads all before them.
BODIES: Final = """
SELECT e.seq, e.sha256, p.raw FROM payload AS p JOIN entry AS e ON e.seq = p.seq WHERE p.seq > ?1 AND e.seq > ?1
ORDER BY p.seq LIMIT ?2
"""
BODIES_AT_ONCE: Final = 500
MOST_FINDINGS: Final = 100

# What is unfinished stands in the queue of each of its lanes, unless it is held and its lane went on.
_OUT_OF_LANE: Final = """
SELECT d.seq FROM delivery AS d CROSS JOIN json_each(d.lanes) AS mine
WHERE d.state IN ('received', 'waiting', 'claimed') AND NOT EXISTS (
  SELECT 1 FROM queue AS q WHERE q.destination = d.destination AND q.lane = mine.value AND q.seq = d.seq)
"""
# In a queue without an unfinished delivery in that lane.
_LEFT_IN_LANE: Final = """
SELECT q.seq FROM queue AS q LEFT JOIN delivery AS d ON d.seq = q.seq AND d.destination = q.destination
WHERE d.seq IS NULL OR d.state NOT IN ('received', 'waiting', 'claimed', 'held')
  OR NOT EXISTS (SELECT 1 FROM json_each(d.lanes) AS mine WHERE mine.value = q.lane)
"""
# Waiting though nothing is ahead.
_WAITS_FOR_NOTHING: Final = """
SELECT d.seq FROM delivery AS d WHERE d.state = 'waiting' AND NOT EXISTS (
  SELECT 1 FROM json_each(d.lanes) AS mine CROSS JOIN queue AS q
  WHERE q.destination = d.destination AND q.lane = mine.value AND q.seq < d.seq)
"""
# Ready though an older one is ahead.
_OVERTAKES: Final = """
SELECT d.seq FROM delivery AS d WHERE d.state = 'received' AND EXISTS (
  SELECT 1 FROM json_each(d.lanes) AS mine CROSS JOIN queue AS q
  WHERE q.destination = d.destination AND q.lane = mine.value AND q.seq < d.seq)
"""
# Accepted and given to no destination.
_NOWHERE: Final = """
SELECT e.seq FROM entry AS e
WHERE e.state = 'received' AND NOT EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq)
"""
# A part of an entry that is not there.
_NO_ENTRY: Final = """
SELECT d.seq FROM delivery AS d WHERE NOT EXISTS (SELECT 1 FROM entry AS e WHERE e.seq = d.seq)
UNION SELECT a.seq FROM attempt AS a WHERE NOT EXISTS (SELECT 1 FROM entry AS e WHERE e.seq = a.seq)
UNION SELECT f.seq FROM follow_up AS f WHERE NOT EXISTS (SELECT 1 FROM entry AS e WHERE e.seq = f.seq)
UNION SELECT p.seq FROM payload AS p WHERE NOT EXISTS (SELECT 1 FROM entry AS e WHERE e.seq = p.seq)
"""
# Unfinished without the bytes to deliver.
_NO_BODY: Final = """
SELECT d.seq FROM delivery AS d WHERE d.state IN ('received', 'waiting', 'claimed', 'held')
AND NOT EXISTS (SELECT 1 FROM payload AS p WHERE p.seq = d.seq)
"""
# An answer to no request.
_NO_ATTEMPT: Final = """
SELECT r.attempt FROM answer AS r WHERE NOT EXISTS (SELECT 1 FROM attempt AS a WHERE a.id = r.attempt)
"""

RULES: Final[tuple[tuple[str, str, str], ...]] = (
    ("out-of-lane", _OUT_OF_LANE, "is unfinished, but does not stand in the queue of its lane: it would never run"),
    ("left-in-lane", _LEFT_IN_LANE, "stands in the queue of a lane, but is finished or not of it: it blocks the lane"),
    ("waits-for-nothing", _WAITS_FOR_NOTHING, "waits, but nothing older stands before it: it would never run"),
    ("overtakes", _OVERTAKES, "may run, but something older of its patient is not finished"),
    ("nowhere", _NOWHERE, "was accepted, but belongs to no destination"),
    ("no-entry", _NO_ENTRY, "has a body, delivery or request, but no entry"),
    ("no-body", _NO_BODY, "is unfinished, but its message is gone"),
    ("no-attempt", _NO_ATTEMPT, "is an answer to a request that is not there (number of the request)"),
)


# Every table of ours.
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
STEPS: Final = 10_000  # of SQLite's machine between two looks whether to stop


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong: the rule that is broken, the number of the entry (0: the file itself), and what it means."""

    rule: str
    entry: int
    meaning: str


def damage_of(folder: Path, stop: Callable[[], bool]) -> str:
    """Return the first table of a journal whose pages are damaged, empty where none is; beside a running engine.

    Looks at one table after the other, so that no moment is kept for longer than one takes. `stop` ends it; what was
    not looked at then counts as sound.
    """
    with closing(open_reader(folder)) as connection:
        if not isinstance(connection, SqliteConnection):
            return ""  # whoever runs the database looks after its pages
        connection.set_progress_handler(stop, STEPS)
        for (table,) in connection.execute(TABLES).fetchall():
            try:
                found = connection.execute(f"PRAGMA quick_check('{table}')").fetchone()[0]
            except SqliteError as error:
                found = "ok" if stop() else str(failure_of(error))
            if found != "ok":
                return f"table {table}"
    return ""


def faults(
    connection: Connection, watch: Callable[[int], None] | None = None, sealing: Sealing | None = None
) -> Iterator[Fault]:
    """Yield all that is wrong with a journal, at most 100 a rule; `watch` hears how many bodies were read since.

    Damage of the file ends it, as nothing can be said of what cannot be read.
    """
    damaged = list(_damage(connection))
    yield from damaged
    if damaged:
        return
    yield from broken_rules(connection)
    yield from altered_bodies(connection, watch, sealing)


def broken_rules(connection: Connection) -> Iterator[Fault]:
    """Yield what breaks a rule among the tables, at most 100 a rule."""
    for name, query, meaning in RULES:
        for (seq,) in connection.execute(f"{query} LIMIT {MOST_FINDINGS}").fetchall():
            yield Fault(name, seq, meaning)


def _damage(connection: Connection) -> Iterator[Fault]:
    if not isinstance(connection, SqliteConnection):
        return  # as above
    try:
        for (text,) in connection.execute("PRAGMA integrity_check(20)"):
            if text != "ok":
                yield Fault("file", 0, text)
    except SqliteError as error:
        yield Fault("file", 0, f"the file cannot be read ({failure_of(error)})")


def altered_bodies(
    connection: Connection, watch: Callable[[int], None] | None, sealing: Sealing | None
) -> Iterator[Fault]:
    """Yield bodies without the digest that they came with, at most 100; `watch` hears how many were read since."""
    seq, found = 0, 0
    while rows := by_name(connection, BODIES, (seq, BODIES_AT_ONCE)).fetchall():
        seq = rows[-1]["seq"]
        for number in _altered(rows, sealing):
            found += 1
            if found <= MOST_FINDINGS:
                yield Fault("digest", number, "does not have the digest it came with: its bytes were changed")
        if watch is not None:
            watch(len(rows))


def _altered(rows: list[Row], sealing: Sealing | None) -> Iterator[int]:
    for row in rows:
        try:
            content = row["raw"] if sealing is None else sealing.unseal(row["raw"], message_at(row["seq"]))
            whole = sha256(content).digest() == row["sha256"]
        except (SealError, TypeError):
            whole = False
        if not whole:
            yield row["seq"]
