"""One patient as the journal has it: numbers that share a lane, merges, held work, messages."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from engine.database.connection import Connection, Row, by_name, json_list
from engine.errors import JournalError, UnknownEntryError
from engine.journal.entry import KnownIdentity, State
from engine.journal.file.sealing import NAMED as SEALED
from engine.journal.file.sealing import Sealing, configured, opened, stored_patient
from engine.journal.moment import from_micros, optional_from_micros
from engine.journal.opening import moment, open_reader
from engine.journal.read.filtering import BY_KEY, BY_VALUE, NAMED
from engine.journal.read.holding import Held, held_here, held_of
from engine.journal.read.searching import AMONG, row_of
from engine.journal.read.streams import EVERYTHING, Stream, walk
from engine.journal.read.views import EntryRow
from engine.journal.state.memory import known


def lanes_of(folder: Path, entries: Sequence[int]) -> dict[int, tuple[int, ...]]:
    """Return the lanes of each entry's patients, as they are now; nothing of an entry that names none."""
    with closing(open_reader(folder)) as connection:
        found: dict[int, list[int]] = {entry: [] for entry in entries}
        for seq, lane in connection.execute(LANES_OF_ALL, (json_list(entries),)).fetchall():
            found[seq].append(lane)
    return {entry: tuple(lanes) for entry, lanes in found.items()}


MOST_SECONDS: Final = 4.0
MOST_NUMBERS: Final = 100
MOST_HELD: Final = 50
MOST_COUNTED: Final = 2_000
UNDER_WAY: Final = frozenset({State.RECEIVED, State.CLAIMED, State.WAITING})

# The lanes of an entry's patients, in the order in which the message names them.
LANES: Final = """
SELECT l.lane FROM entry AS e CROSS JOIN json_each(e.patients) AS mine JOIN lane_of AS l ON l.identity = mine.value
WHERE e.seq = ? ORDER BY mine.key
"""
# The same of several entries (a JSON list).
LANES_OF_ALL: Final = """
SELECT e.seq, l.lane FROM json_each(?) AS i CROSS JOIN entry AS e ON e.seq = i.value
CROSS JOIN json_each(e.patients) AS mine JOIN lane_of AS l ON l.identity = mine.value
"""
# The lane of an identity.
LANE: Final = "SELECT lane FROM lane_of WHERE identity = ?"
# The identities of a lane, with the first and the last entry that names each.
NUMBERS: Final = """
SELECT l.identity, l.key, (SELECT MIN(n.seq) FROM named_in AS n WHERE n.identity = l.identity) AS first,
  (SELECT MAX(n.seq) FROM named_in AS n WHERE n.identity = l.identity) AS last
FROM lane_of AS l WHERE l.lane = ? ORDER BY l.identity LIMIT ?
"""
# When entries (a JSON list) came in.
RECEIVED: Final = "SELECT e.seq, e.received_at FROM json_each(?) AS i CROSS JOIN entry AS e ON e.seq = i.value"
# The merges of a number into others at a destination.
MERGES: Final = """
SELECT m.source_key, m.survivor_key, m.seq FROM merged AS m WHERE m.destination = ? AND m.source_key = ?
ORDER BY m.seq, m.survivor_key
"""
# The newest entries that name one of these identities (a JSON list).
_MINE: Final = """
WITH mine (seq) AS (
  SELECT DISTINCT n.seq FROM json_each(?) AS who CROSS JOIN named_in AS n ON n.identity = who.value
  ORDER BY n.seq DESC LIMIT ?)
"""
# How many they are, how many ended at the door, and which is the newest.
COUNTED: Final = f"""
{_MINE} SELECT COUNT(*), SUM(CASE WHEN e.state = 'received' THEN 0 ELSE 1 END), MAX(e.seq)
FROM mine CROSS JOIN entry AS e ON e.seq = mine.seq
"""  # noqa: S608 - constants
# Their states at destinations.
STATES: Final = f"""
{_MINE} SELECT d.destination, d.state, COUNT(*) AS times, MIN(d.seq) AS first, MAX(d.settled_at) AS settled_at
FROM mine CROSS JOIN delivery AS d ON d.seq = mine.seq GROUP BY d.destination, d.state ORDER BY d.destination, d.state
"""  # noqa: S608 - constants
# What is in front of a delivery in its lanes.
FRONT: Final = """
SELECT MIN(q.seq) FROM delivery AS d CROSS JOIN json_each(d.lanes) AS mine
CROSS JOIN queue AS q ON q.destination = d.destination AND q.lane = mine.value
WHERE d.seq = ?1 AND d.destination = ?2 AND q.seq < ?1
"""
# Why a delivery is as it is.
WHY: Final = "SELECT state, reason FROM delivery WHERE seq = ? AND destination = ?"
# Whether there is such an entry.
IS_THERE: Final = "SELECT 1 FROM entry WHERE seq = ?"


@dataclass(frozen=True, slots=True, repr=False)
class PatientNumber:
    """A number of a patient as `system|value`, and the first and the last entry that names it, None where none is left.

    `key` is empty where the journal is sealed: only the messages have the number.
    """

    key: str
    stored: str
    first: int | None
    last: int | None
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True, repr=False)
class MergeRow:
    """A merge of one number into another that a destination has carried out, by which entry."""

    destination: str
    source: str
    survivor: str
    seq: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class ProgressAt:
    """How far the messages of a patient are at a destination: how many are in each state, and when the last settled.

    `oldest`: the oldest that is under way, since `oldest_at`, and its reason where it is tried again; 0 for none.
    `front`: the held entry of somebody else for which it waits; 0 for none.
    """

    destination: str
    states: Mapping[State, int]
    settled_at: datetime | None
    oldest: int = 0
    oldest_at: datetime | None = None
    retry: str = ""
    front: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the newest 2,000 messages of a patient are; `more`: there are more. `at_door`: those that ended there."""

    messages: int
    more: bool
    at_door: int
    last: EntryRow | None
    places: tuple[ProgressAt, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Patient:
    """A patient of the journal. `more`: more numbers stand in the lane than the first 100: a number that many share."""

    lane: int
    numbers: tuple[PatientNumber, ...]
    more: bool
    merges: tuple[MergeRow, ...]
    held: tuple[Held, ...]
    rows: tuple[EntryRow, ...]
    before: int | None


class Patients:
    """Reads patients from the journal of a data folder; a context manager. All is of one moment."""

    def __init__(self, folder: Path, connection: Connection, sealing: Sealing | None) -> None:
        self._folder = folder
        self._connection = connection
        self._sealing = sealing

    def lanes_of(self, seq: int) -> tuple[int, ...]:
        """Return the lanes of an entry's patients, as they are now; UnknownEntryError where there is no such entry."""
        found = dict.fromkeys(lane for (lane,) in self._connection.execute(LANES, (seq,)).fetchall())
        if not found and self._connection.execute(IS_THERE, (seq,)).fetchone() is None:
            raise UnknownEntryError(f"there is no entry {seq}")
        return tuple(found)

    def lanes_named(self, patient: str) -> tuple[int, ...]:
        """Return the lanes of a number (`system|value`, or a value in any system: UsageError where sealed)."""
        stored = stored_patient(self._sealing, patient)
        sql = BY_KEY if "|" in stored or stored.startswith(SEALED) else BY_VALUE
        identities = [one for (one,) in self._connection.execute(sql, (stored,)).fetchall()]
        lanes = (self._connection.execute(LANE, (identity,)).fetchone()[0] for identity in identities)
        return tuple(dict.fromkeys(lanes))

    def show(self, lane: int, destinations: Sequence[str], limit: int, before: int = 0) -> Patient:
        """Return a lane's patient, with a page of its messages, the newest first and below `before`, if named."""
        rows = by_name(self._connection, NUMBERS, (lane, MOST_NUMBERS + 1)).fetchall()
        identities = [row["identity"] for row in rows[:MOST_NUMBERS]]
        keys = [row["key"] for row in rows[:MOST_NUMBERS]]
        merges = [
            (name, row)
            for name in destinations
            for key in keys
            for row in by_name(self._connection, MERGES, (name, key)).fetchall()
        ]
        ends = {row[side] for row in rows for side in ("first", "last") if row[side] is not None}
        times = self._times(ends | {row["seq"] for _, row in merges})
        numbers = tuple(
            PatientNumber(
                "" if row["key"].startswith(SEALED) else row["key"], row["key"], row["first"], row["last"],
                times.get(row["first"]), times.get(row["last"]),
            )
            for row in rows[:MOST_NUMBERS]
        )  # fmt: skip
        streams = [Stream(NAMED, (identity,)) for identity in identities]
        seqs = list(islice(walk(self._connection, streams, before or EVERYTHING, 0), limit + 1))
        page = by_name(self._connection, AMONG, (json_list(seqs[:limit]),))
        return Patient(
            lane, numbers, len(rows) > MOST_NUMBERS,
            tuple(
                MergeRow(name, row["source_key"], row["survivor_key"], row["seq"], times.get(row["seq"]))
                for name, row in sorted(merges, key=lambda one: one[1]["seq"])
            ),
            tuple(held_of(self._connection, identities, MOST_HELD)),
            tuple(sorted(map(row_of, page), key=lambda row: -row.seq)), seqs[limit - 1] if len(seqs) > limit else None,
        )  # fmt: skip

    def progress(self, lane: int) -> Progress:
        """Return how far the messages of a lane's patient are."""
        rows = by_name(self._connection, NUMBERS, (lane, MOST_NUMBERS)).fetchall()
        mine = json_list([row["identity"] for row in rows])
        count, at_door, newest = self._connection.execute(COUNTED, (mine, MOST_COUNTED + 1)).fetchone()
        found: dict[str, list[Row]] = {}
        for row in by_name(self._connection, STATES, (mine, MOST_COUNTED)).fetchall():
            found.setdefault(row["destination"], []).append(row)
        last = by_name(self._connection, AMONG, (json_list([newest]),)).fetchone() if newest else None
        return Progress(
            min(count, MOST_COUNTED), count > MOST_COUNTED, at_door or 0, row_of(last) if last else None,
            tuple(self._progress_at(name, states) for name, states in found.items()),
        )  # fmt: skip

    def _progress_at(self, destination: str, rows: Sequence[Row]) -> ProgressAt:
        states = {State(row["state"]): row["times"] for row in rows}
        delivered = [row["settled_at"] for row in rows if row["state"] == State.DELIVERED]
        settled_at = optional_from_micros(delivered[0]) if delivered else None
        oldest = min((row["first"] for row in rows if row["state"] in UNDER_WAY), default=0)
        if not oldest:
            return ProgressAt(destination, states, settled_at)
        state, reason = self._connection.execute(WHY, (oldest, destination)).fetchone()
        front = self._connection.execute(FRONT, (oldest, destination)).fetchone()[0] or 0
        ahead = self._connection.execute(WHY, (front, destination)).fetchone() if front else None
        return ProgressAt(
            destination, states, settled_at, oldest, self._times({oldest}).get(oldest),
            reason if state == State.RECEIVED else "", front if ahead and ahead[0] == State.HELD else 0,
        )  # fmt: skip

    def held_here(self, seq: int, destination: str) -> Held | None:
        """Return how an entry is held at a destination; None where it is not."""
        return held_here(self._connection, seq, destination)

    def known(self, destination: str, identities: Sequence[tuple[str, str]]) -> tuple[KnownIdentity, ...]:
        """Return what is known of numbers (system, value) at a destination."""
        return tuple(known(self._connection, self._sealing, destination, identities).values())

    def stored(self, key: str) -> str:
        """Return a number (`system|value`) as the journal keeps it."""
        return key if self._sealing is None else self._sealing.name(key)

    def _times(self, seqs: set[int]) -> dict[int | None, datetime]:
        found = self._connection.execute(RECEIVED, (json_list(sorted(seqs)),)).fetchall()
        return {seq: from_micros(at) for seq, at in found}


@contextmanager
def patients(folder: Path) -> Iterator[Patients]:
    """Read patients of one moment; JournalError where that takes more than 4 seconds."""
    with closing(open_reader(folder)) as connection:
        sealing = opened(connection, configured())
        try:
            with moment(connection, MOST_SECONDS):
                yield Patients(folder, connection, sealing)
        except TimeoutError as error:
            raise JournalError("that took too long to look up: try again") from error
