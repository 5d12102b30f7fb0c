"""Patients by parts of their names and numbers: trigrams name candidates, and each is held against its message.

What is not indexed yet is read itself, as far as time allows; without an index that is every message, newest first.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from engine.database.connection import Connection
from engine.errors import JournalError
from engine.journal.moment import optional_from_micros
from engine.journal.opening import moment, open_reader
from engine.journal.read import texts
from engine.journal.read.wording import Parts, person_of, text_of

SECONDS: Final = 0.35
MOST_SECONDS: Final = 4.0
MOST_PARTS: Final = 200

# Entries whose messages hold the trigrams, the newest first; of very many those of the newest rows.
MATCH: Final = """
SELECT p.seq FROM (SELECT rowid AS id FROM text.names WHERE names MATCH ? ORDER BY rowid DESC LIMIT 5000) AS n
JOIN text.person AS p ON p.id = n.id ORDER BY p.seq DESC
"""
# Entries that are not indexed, the newest first.
BEHIND: Final = "SELECT seq FROM payload WHERE seq > ? ORDER BY seq DESC LIMIT 100000"
# An entry's message, its channel, when it came, and the lane of the patient whom it names first.
MESSAGE: Final = """
SELECT p.raw, e.channel, e.received_at, (
  SELECT l.lane FROM json_each(e.patients) AS mine JOIN lane_of AS l ON l.identity = mine.value
  ORDER BY mine.key LIMIT 1)
FROM payload AS p JOIN entry AS e ON e.seq = p.seq WHERE p.seq = ?
"""
# The newest entry that names a number that holds a part, by lane.
NUMBERS: Final = """
SELECT l.lane, (SELECT MAX(n.seq) FROM named_in AS n WHERE n.identity = l.identity) AS seq FROM lane_of AS l
WHERE instr(lower(substr(l.key, instr(l.key, '|') + 1)), ?) > 0 LIMIT ?
"""
# How many messages there are, by their numbers, as to count them takes time; and when the oldest came.
KEPT: Final = """
SELECT COALESCE((SELECT MAX(seq) FROM payload) - (SELECT MIN(seq) FROM payload) + 1, 0),
  (SELECT e.received_at FROM entry AS e WHERE e.seq = (SELECT MIN(seq) FROM payload))
"""


@dataclass(frozen=True, slots=True)
class FoundPersons:
    """Patients, by lane and the newest entry that was found of each.

    `more`: there are more. `messages`: how many there are to search, since `oldest_at`. `back_to`: how far back they
    were read when the time was over, None where all were searched.
    """

    persons: tuple[tuple[int, int], ...]
    more: bool
    messages: int
    oldest_at: datetime | None
    back_to: datetime | None


def kept(folder: Path) -> tuple[int, datetime | None]:
    """Return how many messages a journal has, and when the oldest of them was received."""
    with closing(open_reader(folder)) as connection:
        count, oldest = connection.execute(KEPT).fetchone()
    return count, optional_from_micros(oldest)


def find_persons(
    folder: Path,
    asked: str,
    charsets: Mapping[str, str],
    most: int,
    clock: Callable[[], float] = time.monotonic,
) -> FoundPersons:
    """Return the patients whose name, numbers or visit hold every part, those of the newest messages first.

    JournalError where the bodies are sealed, or after 4 seconds.
    """
    with closing(open_reader(folder)) as connection:
        if texts.is_sealed(connection):
            raise JournalError("the messages of this journal are sealed: only whole numbers and control IDs are found")
        attached = texts.attach(connection, folder)
        try:
            with moment(connection, MOST_SECONDS):
                return _PersonSearch(connection, Parts(asked), charsets, clock, attached=attached).found(most)
        except TimeoutError as error:
            raise JournalError("that took too long to look up: type more of the name or number") from error


class _PersonSearch:
    def __init__(
        self,
        connection: Connection,
        parts: Parts,
        charsets: Mapping[str, str],
        clock: Callable[[], float],
        *,
        attached: bool,
    ) -> None:
        self._connection = connection
        self._parts = parts
        self._charsets = charsets
        self._clock = clock
        self._over = clock() + SECONDS
        self._indexed = texts.indexed_to(connection) if attached else None
        self._back_to: datetime | None = None

    def found(self, most: int) -> FoundPersons:
        persons: dict[int, int] = {}
        for lane, seq in self._walk():
            persons.setdefault(lane, seq)
            if len(persons) > most:
                break
        count, oldest = self._connection.execute(KEPT).fetchone()
        return FoundPersons(
            tuple(persons.items())[:most], len(persons) > most, count, optional_from_micros(oldest), self._back_to
        )

    def _walk(self) -> Iterator[tuple[int, int]]:
        if self._indexed is None:
            yield from self._by_number()
        unread = self._connection.execute(BEHIND, (-1 if self._indexed is None else self._indexed,))
        yield from self._among(seq for (seq,) in unread)
        if self._indexed is not None and self._back_to is None:
            yield from self._among(seq for (seq,) in self._connection.execute(MATCH, (self._parts.query,)).fetchall())

    def _by_number(self) -> Iterator[tuple[int, int]]:
        """Yield whose numbers hold all parts, which the journal itself knows."""
        first, *others = self._parts.typed
        for lane, seq in self._connection.execute(NUMBERS, (first, MOST_PARTS)).fetchall():
            if seq is not None and not others:
                yield lane, seq

    def _among(self, seqs: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yield those of candidates whose messages are about somebody with all parts, until the time is over."""
        for seq in seqs:
            row = self._connection.execute(MESSAGE, (seq,)).fetchone()
            if row is None:
                continue
            raw, channel, received_at, lane = row
            if lane is not None and self._parts.are_in(person_of(text_of(raw, self._charsets.get(channel, "")))):
                yield lane, seq
            if self._clock() > self._over:
                self._back_to = optional_from_micros(received_at)
                return
