"""Proving a journal sound: the file itself, what must be true among the tables, and that all is as it was written.

Each rule is one query of the rows that break it; a query sees one moment, so a running engine does not disturb it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.database.connection import Connection, Row, as_stored, by_name
from engine.database.sqlite import SqliteConnection, SqliteError, failure_of
from engine.errors import SealError
from engine.journal import row_digest
from engine.journal.entry import KNOWN_STATUSES
from engine.journal.file.sealing import Sealing, message_at
from engine.journal.opening import open_reader

# Bodies with the digest that they had when they came in. Both numbers are bound, or PostgreSQL reads all before them.
BODIES: Final = """
SELECT e.seq, e.sha256, p.raw FROM payload AS p JOIN entry AS e ON e.seq = p.seq WHERE p.seq > ?1 AND e.seq > ?1
ORDER BY p.seq LIMIT ?2
"""
BODIES_AT_ONCE: Final = 500
MOST_FINDINGS: Final = 100

# An unfinished delivery is in the queue of each of its lanes, unless it is held and its lane went on.
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
    ("left-in-lane", _LEFT_IN_LANE, "is in the queue of a lane, but is finished or not of it: it blocks the lane"),
    ("waits-for-nothing", _WAITS_FOR_NOTHING, "waits, but nothing older is before it: it would never run"),
    ("overtakes", _OVERTAKES, "may run, but something older of its patient is not finished"),
    ("nowhere", _NOWHERE, "was accepted, but belongs to no destination"),
    ("no-entry", _NO_ENTRY, "has a body, delivery or request, but no entry"),
    ("no-body", _NO_BODY, "is unfinished, but its message is gone"),
    ("no-attempt", _NO_ATTEMPT, "is an answer to a request that is not there (number of the request)"),
)


class ChecksumTable(NamedTuple):
    """A table whose rows have a checksum: how it is made, and the page of rows after a key, from `first` on.

    A row begins with its key and what else is covered; then come a status that is not, and the checksum. `entry`: where
    the entry's number is in it; -1 where it belongs to none.
    """

    name: str
    of: Callable[[Any], int]
    page: str
    first: tuple[Any, ...]
    entry: int = -1


LEAST: Final = -(1 << 63)
ROWS_AT_ONCE: Final = 500
# Requests with their checksums.
ATTEMPTS: Final = """
SELECT id, seq, destination, number, method, url, query, headers, body, at, NULL, crc FROM attempt
WHERE id > ?1 ORDER BY id LIMIT ?2
"""
# Deliveries with theirs.
MAPPINGS: Final = """
SELECT seq, destination, mapping, NULL, crc FROM delivery WHERE (seq, destination) > (?1, ?2)
ORDER BY seq, destination LIMIT ?3
"""
# What identifiers stand for, with theirs.
KNOWN: Final = """
SELECT destination, system, value, logical_id, survivor, status, crc FROM known
WHERE (destination, system, value) > (?1, ?2, ?3) ORDER BY destination, system, value LIMIT ?4
"""
# What sources own, with theirs.
OWNED: Final = """
SELECT destination, resource, source, slices, NULL, crc FROM owned WHERE (destination, resource, source) > (?1, ?2, ?3)
ORDER BY destination, resource, source LIMIT ?4
"""
CHECKED: Final = (
    ChecksumTable("attempt", row_digest.of_attempt, ATTEMPTS, (LEAST,), entry=1),
    ChecksumTable("delivery", row_digest.of_delivery, MAPPINGS, (LEAST, ""), entry=0),
    ChecksumTable("known", row_digest.of_known, KNOWN, ("", "", "")),
    ChecksumTable("owned", row_digest.of_owned, OWNED, ("", "", "")),
)
# Whether a file, a backup of an older program perhaps, has checksums of rows.
HAS_CHECKSUMS: Final = """
SELECT 1 FROM sqlite_schema AS t, pragma_table_info(t.name) AS c WHERE t.name = 'attempt' AND c.name = 'crc'
"""

# Every table of ours.
TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
STEPS: Final = 10_000  # of SQLite's machine between two looks whether to stop


@dataclass(frozen=True, slots=True)
class JournalFault:
    """What is wrong: the rule that is broken, the number of the entry (0: of none), and what it means."""

    rule: str
    entry: int
    meaning: str

    @property
    def sentence(self) -> str:
        """What is wrong, in one sentence."""
        return f"entry {self.entry} {self.meaning}" if self.entry else self.meaning


def damage_of(folder: Path, stop: Callable[[], bool]) -> str:
    """Return the first table of a journal whose pages are damaged, empty where none is; safe while an engine runs.

    Looks at one table after the other, so that no moment is kept for longer than one takes. `stop` ends it; what was
    not looked at then counts as sound.
    """
    with closing(open_reader(folder)) as connection:
        if not isinstance(connection, SqliteConnection):
            return ""  # the administrator of the database looks after its pages
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
    connection: Connection,
    watch: Callable[[int], None] | None = None,
    sealing: Sealing | None = None,
    unchecked: Counter[str] | None = None,
) -> Iterator[JournalFault]:
    """Yield all that is wrong with a journal, at most 100 a rule; `watch` hears how many bodies were read since.

    Damage of the file ends it, as nothing can be said of what cannot be read. `unchecked` counts rows that have no
    checksum, by table.
    """
    damaged = list(_damage(connection))
    yield from damaged
    if damaged:
        return
    yield from broken_rules(connection)
    yield from altered_rows(connection, unchecked)
    yield from altered_bodies(connection, watch, sealing)


def broken_rules(connection: Connection) -> Iterator[JournalFault]:
    """Yield what breaks a rule among the tables, at most 100 a rule."""
    for name, query, meaning in RULES:
        for (seq,) in connection.execute(f"{query} LIMIT {MOST_FINDINGS}").fetchall():
            yield JournalFault(name, seq, meaning)


def _damage(connection: Connection) -> Iterator[JournalFault]:
    if not isinstance(connection, SqliteConnection):
        return  # as above
    try:
        for (text,) in connection.execute("PRAGMA integrity_check(20)"):
            if text != "ok":
                yield JournalFault("file", 0, text)
    except SqliteError as error:
        yield JournalFault("file", 0, f"the file cannot be read ({failure_of(error)})")


def altered_rows(connection: Connection, unchecked: Counter[str] | None = None) -> Iterator[JournalFault]:
    """Yield rows without the checksum that they were written with, at most 100 a table; nothing needs a key for it.

    `unchecked` counts those that have none, by table: an older program wrote them, or retention took their content.
    """
    if isinstance(connection, SqliteConnection) and connection.execute(HAS_CHECKSUMS).fetchone() is None:
        return
    for checked in CHECKED:
        read = found = 0
        after: tuple[Any, ...] | None = checked.first
        while after is not None and (rows := as_stored(connection, checked.page, (*after, ROWS_AT_ONCE))):
            for place, row in enumerate(rows, read + 1):
                # A key that cannot be read is reported in any case: the walk may end at it.
                if row[-1] is None and _readable(row[: len(checked.first)]) is not None:
                    # What has no mapping yet has nothing to check.
                    if unchecked is not None and (checked.name != "delivery" or row[2]):
                        unchecked[checked.name] += 1
                elif not _is_as_written(checked, row):
                    found += 1
                    if found <= MOST_FINDINGS:
                        yield _altered_row(checked, row, place)
            read += len(rows)
            after = _readable(rows[-1][: len(checked.first)])


def _is_as_written(checked: ChecksumTable, row: tuple[Any, ...]) -> bool:
    *covered, status, crc = row
    if status is not None and status not in KNOWN_STATUSES:
        return False
    try:
        return bool(checked.of(tuple(covered)) == crc)
    except (TypeError, ValueError):
        return False  # a value of another type, which the engine never writes


def _altered_row(checked: ChecksumTable, row: tuple[Any, ...], place: int) -> JournalFault:
    """Return the fault of a row; one without an entry is named by its place, as its key may name a patient."""
    changed = "changed since it was written: its checksum is another one"
    if checked.entry < 0:
        return JournalFault("row-digest", 0, f"table {checked.name}: row {place} in the order of its key was {changed}")
    seq, key = row[checked.entry], f"id {row[0]!r}" if checked.name == "attempt" else f"destination {row[1]!r}"
    number = seq if seq.__class__ is int else 0
    return JournalFault("row-digest", number, f"has a row in table {checked.name} ({key}) that was {changed}")


def _readable(key: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return a key by which the rows after it can be asked for; None where the disk left none, and the walk ends."""
    try:
        for part in key:
            if isinstance(part, str):
                part.encode()
    except UnicodeEncodeError:
        return None
    return key


def altered_bodies(
    connection: Connection, watch: Callable[[int], None] | None, sealing: Sealing | None
) -> Iterator[JournalFault]:
    """Yield bodies without the digest that they came with, at most 100; `watch` hears how many were read since."""
    seq, found = 0, 0
    while rows := by_name(connection, BODIES, (seq, BODIES_AT_ONCE)).fetchall():
        seq = rows[-1]["seq"]
        for number in _altered(rows, sealing):
            found += 1
            if found <= MOST_FINDINGS:
                yield JournalFault("digest", number, "does not have the digest it came with: its bytes were changed")
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
