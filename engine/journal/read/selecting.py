"""Selecting: which entries a bulk run is about, in journal order, and what there is to know of them beforehand."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from engine.database.connection import Connection, json_list
from engine.errors import UnknownEntryError, UsageError
from engine.journal.claim.claiming import with_unfinished
from engine.journal.entry import FAILED, State, StateFilter
from engine.journal.file.sealing import NAMED, configured, opened, stored_patient
from engine.journal.moment import to_micros
from engine.journal.opening import open_reader
from engine.journal.read.streams import EVERYTHING, span

MOST_ENTRIES: Final = 1_000_000
MOST_WEIGHED: Final = 20_000
CHUNK: Final = 5_000

# Entries and their events, under conditions.
SELECT: Final = "SELECT e.seq, e.event FROM entry AS e WHERE "
# Entries by their numbers (a JSON list).
_NAMED: Final = "e.seq IN (SELECT value FROM json_each(?))"
# The first of these numbers that is no entry.
_ABSENT: Final = """
SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM entry WHERE seq = value) ORDER BY value LIMIT 1
"""
# What is in a state other than delivered: at a destination, or as intake left it.
_OPEN: Final = with_unfinished("""
SELECT d.seq FROM name CROSS JOIN delivery AS d INDEXED BY delivery_open
  ON d.destination = name.destination AND d.state = ? AND d.state <> 'delivered'
  WHERE ? = '' OR name.destination = ?
  UNION ALL SELECT seq FROM entry WHERE state = ? AND state <> 'received' AND ? = ''
""")
# What is held at a destination or on arrival, or rejected at a destination.
_FAILED: Final = with_unfinished("""
SELECT d.seq FROM name CROSS JOIN delivery AS d INDEXED BY delivery_open
  ON d.destination = name.destination AND d.state IN ('held', 'rejected') AND d.state <> 'delivered'
  WHERE ? = '' OR name.destination = ?
  UNION ALL SELECT seq FROM entry WHERE state = 'held' AND state <> 'received' AND ? = ''
""")
# What has failed at a time or later, at a destination or on arrival.
_FAILED_SINCE: Final = """
(EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq AND d.state IN ('held', 'rejected')
  AND (? = '' OR d.destination = ?) AND d.settled_at >= ?) OR (e.state = 'held' AND e.received_at >= ?))
"""
# What a destination holds.
_DELIVERED: Final = """
e.state = 'received' AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq AND d.state = 'delivered'
  AND (? = '' OR d.destination = ?))
"""
# What a destination holds, and what was never given to it: to fill it.
_FILL: Final = """
e.state = 'received' AND NOT EXISTS (SELECT 1 FROM delivery AS d
  WHERE d.seq = e.seq AND d.destination = ? AND d.state <> 'delivered')
AND EXISTS (SELECT 1 FROM delivery AS d WHERE d.seq = e.seq AND d.state <> 'discarded')
"""
# A patient's, by key.
_OF_PATIENT: Final = """
e.seq IN (SELECT n.seq FROM lane_of AS l JOIN named_in AS n ON n.identity = l.identity WHERE l.key = ?)
"""
# A patient's, by value in any system.
_OF_VALUE: Final = """
e.seq IN (SELECT n.seq FROM lane_of AS l INDEXED BY lane_of_value JOIN named_in AS n ON n.identity = l.identity
  WHERE substr(l.key, instr(l.key, '|') + 1) = ?)
"""
# What has a reason, at a destination or at the door.
_OF_REASON: Final = """
e.seq IN (SELECT seq FROM delivery WHERE reason = ? AND reason <> ''
  UNION ALL SELECT seq FROM entry WHERE reason = ? AND reason <> '')
"""
# Received within a time, whose numbers are known roughly.
_OF_TIME: Final = "e.seq >= ? AND e.seq < ? AND e.received_at >= ? AND e.received_at < ?"
# Of these entries (a JSON list): those that something newer was applied after.
OVERTAKEN: Final = """
SELECT COUNT(DISTINCT d.seq) FROM json_each(?) AS i CROSS JOIN delivery AS d ON d.seq = i.value
CROSS JOIN entry AS e ON e.seq = d.seq CROSS JOIN json_each(e.patients) AS mine
CROSS JOIN lane_of AS own ON own.identity = mine.value CROSS JOIN applied AS a ON a.destination = d.destination
  AND a.lane = own.lane AND a.seq > d.seq
WHERE ? = '' OR d.destination = ?
"""
# In which states these entries (a JSON list) stand, and how many in each.
STATES: Final = """
SELECT COALESCE(d.state, e.state), COUNT(*) FROM json_each(?) AS i CROSS JOIN entry AS e ON e.seq = i.value
LEFT JOIN delivery AS d ON d.seq = e.seq AND (? = '' OR d.destination = ?) GROUP BY 1
"""


@dataclass(frozen=True, slots=True, repr=False)
class Selection:
    """Which entries are meant: `entries` by their numbers, or all that the rest says.

    `state` None: what was delivered; with `destination` also what was never given to it. `patient` is system|value or
    a bare value. `since` and `until` are of the receipt, `until` excluded; `failed_since` is of the moment at which it
    was held or rejected.
    """

    entries: tuple[int, ...] = ()
    state: StateFilter | None = None
    channel: str = ""
    event: str = ""
    patient: str = ""
    reason: str = ""
    destination: str = ""
    since: datetime | None = None
    until: datetime | None = None
    failed_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Selected:
    """Entries in journal order, and how many there are by event and by state; `overtaken` of the first 20,000."""

    seqs: tuple[int, ...]
    events: Mapping[str, int]
    states: Mapping[str, int]
    overtaken: int


def select(folder: Path, selection: Selection) -> Selected:
    """Return the entries that a selection means, as of one moment.

    UsageError for more than a million, UnknownEntryError for a number that is no entry's.
    """
    with closing(open_reader(folder)) as connection:
        connection.execute("BEGIN")
        if absent := connection.execute(_ABSENT, (json_list(selection.entries),)).fetchone():
            raise UnknownEntryError(f"there is no entry {absent[0]}")
        patient = stored_patient(opened(connection, configured()), selection.patient)
        numbers = span(connection, selection.since, selection.until)
        where, values = conditions(replace(selection, patient=patient), *numbers)
        sql = f"{SELECT}{' AND '.join(where)} ORDER BY e.seq LIMIT ?"
        rows = connection.execute(sql, (*values, MOST_ENTRIES + 1)).fetchall()
        if len(rows) > MOST_ENTRIES:
            raise UsageError(
                f"more than {MOST_ENTRIES:,} entries: narrow it down, with --since and --until for example"
            )
        seqs = [seq for seq, _event in rows]
        events = Counter(event or "none" for _seq, event in rows)
        return Selected(tuple(seqs), dict(events.most_common()), *_weighed(connection, seqs, selection.destination))


def _weighed(connection: Connection, seqs: Sequence[int], destination: str) -> tuple[dict[str, int], int]:
    states: Counter[str] = Counter()
    overtaken = 0
    for at in range(0, len(seqs), CHUNK):
        chunk = json_list(seqs[at : at + CHUNK])
        states.update(dict(connection.execute(STATES, (chunk, destination, destination)).fetchall()))
        if at < MOST_WEIGHED:
            overtaken += connection.execute(OVERTAKEN, (chunk, destination, destination)).fetchone()[0]
    return dict(states), overtaken


def conditions(selection: Selection, least: int, end: int) -> tuple[list[str], list[Any]]:
    """Return what must hold of an entry, and the values; `least` and `end` bound the numbers that its time can have."""
    narrow = list(_narrow(selection, least, end))
    # The index of feeds serves where nothing narrower is asked: `+` keeps SQLite from it.
    plus = "+" if narrow else ""
    feed = [
        (f"{plus}e.{column} = ?", (wanted,))
        for column in ("channel", "event")
        if (wanted := getattr(selection, column))
    ]
    found = [*narrow, *feed]
    if not selection.entries and selection.state in {None, State.DELIVERED}:
        found.append(_ended(selection))
    return [sql for sql, _ in found], [value for _, values in found for value in values]


def _narrow(selection: Selection, least: int, end: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield each condition that an index answers, with its values."""
    name, state = selection.destination, selection.state
    if selection.entries:
        yield _NAMED, (json_list(selection.entries),)
    elif state == FAILED:
        yield f"e.seq IN ({_FAILED})", (name, name, name)
    elif state not in {None, State.DELIVERED}:
        yield f"e.seq IN ({_OPEN})", (str(state), name, name, str(state), name)
    if selection.since is not None or selection.until is not None:
        begin = to_micros(selection.since) if selection.since else 0
        yield _OF_TIME, (least, end, begin, to_micros(selection.until) if selection.until else EVERYTHING)
    if selection.failed_since is not None:
        failed = to_micros(selection.failed_since)
        yield _FAILED_SINCE, (name, name, failed, failed)
    if selection.reason:
        yield _OF_REASON, (selection.reason, selection.reason)
    if "|" in selection.patient or selection.patient.startswith(NAMED):
        yield _OF_PATIENT, (selection.patient,)
    elif selection.patient:
        yield _OF_VALUE, (selection.patient,)


def _ended(selection: Selection) -> tuple[str, tuple[Any, ...]]:
    name = selection.destination
    return (_FILL, (name,)) if name and selection.state is None else (_DELIVERED, (name, name))
