"""Possible duplicates as pairs of records: which entries noted a pair, who is meant, and what has settled it since."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import orjson

from engine.database.connection import Connection, by_name, json_list
from engine.errors import JournalError
from engine.journal.file.sealing import NAMED as SEALED
from engine.journal.opening import moment, open_reader

POSSIBLE: Final = "possible-duplicate"
BESIDE: Final = "created-beside"
MOST_HOPS: Final = 64
MOST_SECONDS: Final = 4.0
PATIENT: Final = "Patient/"

# The notes of entries (a JSON list) by destination.
NOTES: Final = """
SELECT d.seq, d.destination, d.notes FROM json_each(?) AS i CROSS JOIN delivery AS d ON d.seq = i.value
WHERE d.notes <> '[]' ORDER BY d.seq, d.destination
"""
# The entries whose delivery at a destination bears a note.
NOTED: Final = """
SELECT n.seq FROM noted AS n CROSS JOIN delivery AS d ON d.seq = n.seq AND d.destination = ?2
WHERE n.code = ?1 AND EXISTS (SELECT 1 FROM json_each(d.notes) AS f WHERE f.atom = ?1) ORDER BY n.seq DESC LIMIT 100
"""
# Into which record one was merged, and the numbers by which that is known; read by its index.
GONE: Final = """
SELECT survivor, system, value FROM known
WHERE destination = ? AND logical_id = ? AND status = 'merged-away' AND survivor <> logical_id LIMIT 100
"""
# The entry that merged a number last.
MERGED: Final = "SELECT MAX(seq) FROM merged WHERE destination = ? AND source_key = ?"
# The numbers of records (a JSON list). No index has them: it would cost each delivery more than this reading costs.
NUMBERS: Final = """
SELECT k.destination, k.logical_id, k.system, k.value FROM known AS k
WHERE k.logical_id IN (SELECT i.atom FROM json_each(?) AS i) ORDER BY k.destination, k.logical_id, k.system, k.value
"""
# The identities of numbers (a JSON list of keys).
IDENTITIES: Final = "SELECT l.key, l.identity FROM json_each(?) AS i CROSS JOIN lane_of AS l ON l.key = i.atom"
# The newest entry that linked two patients, or parted them: one that names an identity of each (JSON lists).
LINKED: Final = """
SELECT d.seq, d.reason FROM json_each(?1) AS one CROSS JOIN named_in AS n ON n.identity = one.value
CROSS JOIN delivery AS d ON d.seq = n.seq AND d.destination = ?3
WHERE d.reason IN ('linked', 'already-linked', 'unlinked', 'nothing-to-unlink')
AND EXISTS (SELECT 1 FROM json_each(?2) AS other CROSS JOIN named_in AS m ON m.identity = other.value
  WHERE m.seq = n.seq)
ORDER BY d.seq DESC LIMIT 1
"""
# Whether any entry linked patients, or parted them.
ANY_LINK: Final = """
SELECT EXISTS (SELECT 1 FROM delivery INDEXED BY delivery_reason
  WHERE reason IN ('linked', 'already-linked', 'unlinked', 'nothing-to-unlink') AND reason <> '')
"""
# The newest entries that name an identity, each with the identities that it names, the patient's own first.
NEWEST: Final = """
SELECT e.seq, e.patients FROM named_in AS n CROSS JOIN entry AS e ON e.seq = n.seq
WHERE n.identity = ? ORDER BY n.seq DESC LIMIT 20
"""


class PairEnding(StrEnum):
    """What ended the question whether two records are one patient's."""

    MERGED = "merged"
    LINKED = "linked"
    UNLINKED = "unlinked"


SETTLES: Final[Mapping[str, PairEnding]] = {
    "linked": PairEnding.LINKED,
    "already-linked": PairEnding.LINKED,
    "unlinked": PairEnding.UNLINKED,
    "nothing-to-unlink": PairEnding.UNLINKED,
}


@dataclass(frozen=True, slots=True)
class PairEnd:
    """How a pair was settled, and by which entry; 0 where the destination merged the records without a message."""

    how: PairEnding
    entry: int


@dataclass(frozen=True, slots=True)
class PairPlace:
    """A pair at one destination: `this` was created next to `that`, by logical id; '' where the note names none."""

    destination: str
    this: str
    that: str
    settled: PairEnd | None = None


@dataclass(frozen=True, slots=True)
class NotedPair:
    """Two patients who may be one person, at each destination where an entry noted it.

    `number`: which of the entry's pairs. `noted`: entry and number of each note of the pair, the newest first.
    `this`, `that`: an entry about each patient, 0 where the journal has none.
    """

    number: int
    places: tuple[PairPlace, ...]
    noted: tuple[tuple[int, int], ...]
    this: int = 0
    that: int = 0

    @property
    def settled(self) -> PairEnd | None:
        """What settled the pair: the last of its settlements, once it has one at each destination."""
        found = [place.settled for place in self.places if place.settled]
        return max(found, key=lambda one: one.entry) if len(found) == len(self.places) else None


def noted_pairs(folder: Path, entries: Sequence[int]) -> dict[int, tuple[NotedPair, ...]]:
    """Return the pairs that each of some entries noted, in the order of its notes; JournalError after 4 seconds."""
    with closing(open_reader(folder)) as connection:
        try:
            with moment(connection, MOST_SECONDS):
                return _PairReader(connection, entries).pairs()
        except TimeoutError as error:
            raise JournalError("that took too long to look up: try again") from error


class _PairReader:
    """Reads the pairs of entries as of one moment."""

    def __init__(self, connection: Connection, entries: Sequence[int]) -> None:
        self._connection = connection
        self._entries = entries
        self._places = dict(_noted(connection, entries))
        records = {record for places in self._places.values() for one in places for record in (one.this, one.that)}
        self._identities = _identities(connection, records - {""})
        self._any_link = bool(connection.execute(ANY_LINK).fetchone()[0])

    def pairs(self) -> dict[int, tuple[NotedPair, ...]]:
        return {entry: tuple(self._of(entry)) for entry in self._entries if entry in self._places}

    def _of(self, entry: int) -> Iterator[NotedPair]:
        for number, places in enumerate(self._grouped(self._places[entry]), 1):
            first = places[0]
            yield NotedPair(
                number,
                tuple(PairPlace(one.destination, one.this, one.that, self._settled(one)) for one in places),
                tuple(self._notes_of(entry, number, first)),
                self._about(first.destination, first.this),
                self._about(first.destination, first.that),
            )

    def _grouped(self, places: Iterable[PairPlace]) -> list[list[PairPlace]]:
        """Return the places of each pair: one pair where destinations know both records by the same numbers."""
        found: dict[object, list[PairPlace]] = {}
        for one in places:
            sides = [self._identities.get((one.destination, record), []) for record in (one.this, one.that)]
            known = all(sides)
            key = tuple(sorted(min(side) for side in sides)) if known else (one.destination, one.this, one.that)
            found.setdefault(key, []).append(one)
        return list(found.values())

    def _settled(self, place: PairPlace) -> PairEnd | None:
        if not place.that:
            return None
        merge = _united(self._connection, place.destination, place.this, place.that)
        if merge is not None:
            return PairEnd(PairEnding.MERGED, merge)
        sides = [self._identities.get((place.destination, record), []) for record in (place.this, place.that)]
        if not self._any_link or not all(sides):
            return None
        row = self._connection.execute(LINKED, (*map(json_list, sides), place.destination)).fetchone()
        return PairEnd(SETTLES[row[1]], row[0]) if row else None

    def _notes_of(self, entry: int, number: int, place: PairPlace) -> Iterator[tuple[int, int]]:
        """Yield each entry that noted a pair, whichever of the two was created, and which of its pairs this is."""
        sides = ((place.this, place.that), (place.that, place.this))
        codes = [f"{BESIDE} {PATIENT}{one} {PATIENT}{other}" for one, other in sides if place.that]
        rows = [self._connection.execute(NOTED, (code, place.destination)).fetchall() for code in codes]
        for seq in sorted({seq for each in rows for (seq,) in each} | {entry}, reverse=True):
            yield seq, number if seq == entry else self._number(seq, place)

    def _number(self, entry: int, place: PairPlace) -> int:
        """Return which of an entry's pairs one is; 0 where it is none of them any more."""
        places = dict(_noted(self._connection, [entry])).get(entry, [])
        meant = {place.this, place.that}
        for number, group in enumerate(self._grouped(places), 1):
            if any(one.destination == place.destination and {one.this, one.that} == meant for one in group):
                return number
        return 0

    def _about(self, destination: str, record: str) -> int:
        """Return the newest entry about the patient of a record; 0 where the journal knows no number of it."""
        mine = self._identities.get((destination, record), [])
        rows = [row for one in mine for row in self._connection.execute(NEWEST, (one,)).fetchall()]
        own = [seq for seq, patients in rows if next(iter(orjson.loads(patients)), None) in mine]
        return max(own or [seq for seq, _ in rows], default=0)


def _noted(connection: Connection, entries: Sequence[int]) -> Iterator[tuple[int, list[PairPlace]]]:
    found: dict[int, list[PairPlace]] = {}
    for row in by_name(connection, NOTES, (json_list(entries),)).fetchall():
        notes = orjson.loads(row["notes"])
        if POSSIBLE in notes:
            named = [note.split(" ")[1:] for note in notes if note.startswith(f"{BESIDE} ")]
            sides = [[one.removeprefix(PATIENT) for one in pair] for pair in named if len(pair) == 2] or [["", ""]]
            found.setdefault(row["seq"], []).extend(PairPlace(row["destination"], *side) for side in sides)
    yield from found.items()


def _identities(connection: Connection, records: Iterable[str]) -> dict[tuple[str, str], list[int]]:
    """Return the identities of records, by destination and logical id."""
    rows = by_name(connection, NUMBERS, (json_list(sorted(records)),)).fetchall() if records else []
    keys = [row["value"] if row["value"].startswith(SEALED) else f"{row['system']}|{row['value']}" for row in rows]
    numbers = dict(connection.execute(IDENTITIES, (json_list(sorted(set(keys))),)).fetchall()) if keys else {}
    found: dict[tuple[str, str], list[int]] = {}
    for row, key in zip(rows, keys, strict=True):
        if key in numbers:
            found.setdefault((row["destination"], row["logical_id"]), []).append(numbers[key])
    return found


def _united(connection: Connection, destination: str, one: str, other: str) -> int | None:
    """Return the last merge that made one record of two, 0 for one without a message; None where they are two."""
    there = dict(_trail(connection, destination, one))
    latest = 0
    for logical_id, seq in _trail(connection, destination, other):
        latest = max(latest, seq)
        if logical_id in there:
            return max(latest, there[logical_id])
    return None


def _trail(connection: Connection, destination: str, logical_id: str) -> Iterator[tuple[str, int]]:
    """Yield a record and those into which it was merged, one after another, each with the last merge up to there."""
    latest, seen = 0, {logical_id}
    yield logical_id, latest
    while len(seen) < MOST_HOPS:
        rows = by_name(connection, GONE, (destination, logical_id)).fetchall()
        logical_id = rows[0]["survivor"] if rows else ""
        if not logical_id or logical_id in seen:
            return
        keys = [row["value"] if row["value"].startswith(SEALED) else f"{row['system']}|{row['value']}" for row in rows]
        merges = [connection.execute(MERGED, (destination, key)).fetchone()[0] or 0 for key in keys]
        latest = max(latest, *merges)
        seen.add(logical_id)
        yield logical_id, latest
