"""Full text: an index of the words of every message, in a file of its own that is filled behind the journal's back.

Nobody who sends or delivers waits for it: a thread reads what was recorded and indexes it, at most a share of its time.
It is made of the journal and can be made again: a file that is lost, damaged or of another journal is begun anew. What
is not yet indexed is read itself when somebody searches. Bodies that left the journal leave the index on the thread's
next round. Nothing is indexed while the disk is short of room.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed

from engine.database.connection import Connection, json_list
from engine.database.sqlite import SqliteConnection, is_damage
from engine.errors import JournalError
from engine.journal.file.reserve import free_bytes_kept
from engine.journal.opening import open_reader
from engine.journal.read import person_index
from engine.journal.read.streams import Stream
from engine.journal.read.wording import Phrases, person_of, text_of, words

FILE: Final = "text.db"
VERSION: Final = 3  # of the tables below: an index of another version is made again
PAGE: Final = 128
SHARE: Final = 0.1  # of the thread's time that indexing may take while there is more to index
PIECE: Final = 4  # messages between two rests: another thread waits for the interpreter for no more than these
IDLE_SECONDS: Final = 1.0
RETRY_SECONDS: Final = 60.0
ROUND_SECONDS: Final = 600.0  # between two looks whether retention took something
DAY_SECONDS: Final = 86_400.0  # after which all is looked through whatever the looks said
DOCUMENTS_AT_ONCE: Final = 1024
PAUSE_SECONDS: Final = 0.02
STEP_PAGES: Final = 500

SETTINGS: Final = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA secure_delete = ON",
    "PRAGMA trusted_schema = OFF",
)
TABLES: Final = (
    """
CREATE VIRTUAL TABLE IF NOT EXISTS words
USING fts5(body, content='', contentless_delete=1, detail=none, tokenize='ascii')
""",
    "CREATE TABLE IF NOT EXISTS indexed (seq INTEGER NOT NULL, sha256 BLOB NOT NULL, charsets TEXT NOT NULL)",
    "INSERT INTO indexed (seq, sha256, charsets) SELECT 0, x'', '' WHERE NOT EXISTS (SELECT 1 FROM indexed)",
    *person_index.TABLES,
    f"PRAGMA user_version = {VERSION}",
)
# Whether the file is of another version.
OTHER: Final = f"""
SELECT EXISTS (SELECT 1 FROM sqlite_schema) AND (SELECT user_version FROM pragma_user_version) <> {VERSION}
"""  # noqa: S608 - constants
# How far the index is, and the entry there in the journal that it was made of; a restored one has something else.
INDEXED: Final = "SELECT seq, sha256 FROM indexed"
# The digest of an entry's bytes.
DIGEST: Final = "SELECT sha256 FROM entry WHERE seq = ?"
# In which sets the channels' messages were read, as JSON.
CHARSETS: Final = "SELECT charsets FROM indexed"
# Begin to read in these.
READ_IN: Final = "UPDATE indexed SET charsets = ? WHERE seq = 0"
# The next bodies, each with its channel.
BODIES: Final = """
SELECT p.seq, p.raw, e.channel FROM payload AS p JOIN entry AS e ON e.seq = p.seq WHERE p.seq > ? ORDER BY p.seq LIMIT ?
"""
# Index the words of an entry.
ADD: Final = "INSERT INTO words (rowid, body) VALUES (?, ?)"
# How far the index is now.
ADVANCE: Final = "UPDATE indexed SET seq = ?, sha256 = ?"
# The next entries that are indexed.
DOCUMENTS: Final = "SELECT id FROM words_docsize WHERE id > ? ORDER BY id LIMIT ?"
# What changes when retention takes something away.
TRACES: Final = "SELECT (SELECT MIN(seq) FROM payload), (SELECT MAX(seq) FROM worn), (SELECT MIN(seq) FROM entry)"
# Which of these entries (a JSON list) have no body any more.
GONE: Final = """
SELECT one.value FROM json_each(?) AS one WHERE NOT EXISTS (SELECT 1 FROM payload WHERE seq = one.value)
"""
# Take entries (a JSON list) out of the index.
FORGET: Final = "DELETE FROM words WHERE rowid IN (SELECT value FROM json_each(?))"
# What was forgotten stays in the index's segments until they are merged: first all are marked, then merged in steps.
MERGES: Final = (
    "INSERT INTO words (words, rank) VALUES ('merge', ?)",
    "INSERT INTO names (names, rank) VALUES ('merge', ?)",
)

# Whether the journal seals its bodies.
SEALED: Final = "SELECT EXISTS (SELECT 1 FROM seal_key)"
# Read the index together with the journal.
ATTACH: Final = "ATTACH ? AS text"
# Indexed entries that hold the words.
MATCH: Final = """
SELECT rowid AS seq FROM text.words WHERE words MATCH ? AND rowid < ? AND rowid >= ? ORDER BY rowid DESC
"""
# Entries that are not yet indexed.
BEHIND: Final = "SELECT seq FROM payload WHERE seq > ? AND seq < ? AND seq >= ? ORDER BY seq DESC"
# Of which version the index is.
ATTACHED_VERSION: Final = "PRAGMA text.user_version"
# Let go of the index.
DETACH: Final = "DETACH text"
# Whether the index is attached.
IS_THERE: Final = "SELECT 1 FROM pragma_database_list WHERE name = 'text'"


def is_sealed(connection: Connection) -> bool:
    """Say whether the journal's bodies are sealed, so that their words are nobody's to index."""
    return bool(connection.execute(SEALED).fetchone()[0])


def streams(connection: Connection, phrases: Phrases) -> tuple[Stream, ...]:
    """Return the streams of entries that may hold the words: those indexed, and all that are not indexed yet.

    JournalError where the bodies are sealed.
    """
    if is_sealed(connection):
        raise JournalError("the messages of this journal are sealed: their words cannot be searched for")
    if not isinstance(connection, SqliteConnection) or connection.execute(IS_THERE).fetchone() is None:
        return (Stream(BEHIND, (-1,)),)
    last = indexed_to(connection)
    if last is None:
        return (Stream(BEHIND, (-1,)),)
    return Stream(MATCH, (phrases.query,)), Stream(BEHIND, (last,))


def indexed_to(connection: Connection) -> int | None:
    """Return the last entry that an attached index has; None where it was made of another journal."""
    last, digest = connection.execute(INDEXED).fetchone()
    return int(last) if _is_of(connection, last, digest) else None


def attach(connection: Connection, folder: Path) -> bool:
    """Let a reading connection see the index; False where there is none of use, and every body is read."""
    path = (folder / FILE).absolute()
    if not isinstance(connection, SqliteConnection) or not path.exists():
        return False
    try:
        connection.execute(ATTACH, (f"{path.as_uri()}?mode=ro",))
    except sqlite3.DatabaseError:
        return False
    if connection.execute(ATTACHED_VERSION).fetchone()[0] == VERSION:
        return True
    connection.execute(DETACH)
    return False


class Texts:
    """Indexes what the journal of a folder holds, in a thread of its own, from `start` to `stop`.

    `failed` is called, in that thread, with the error; it is tried again. Where bodies are sealed there is no index.
    `charsets`: those of the channels now; where one changes, the index is made again.
    """

    def __init__(
        self, folder: Path, failed: Callable[[BaseException], None], charsets: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self._folder = folder
        self._failed = failed
        self._charsets = charsets
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="texts", daemon=True)

    def start(self) -> None:
        """Begin; the journal must be there."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way, and wait for it."""
        self._stop.set()
        self._thread.join()

    def _live(self) -> None:
        while not self._stop.is_set():
            try:
                with closing(open_reader(self._folder)) as journal:
                    if is_sealed(journal):
                        remove(self._folder)
                        return
                    with closing(open_index(self._folder)) as index:
                        indexing = Indexing(journal, index, self._charsets())
                        is_ours = indexing.is_ours()
                        if is_ours:
                            self._work(indexing)
                if not is_ours:
                    remove(self._folder)
            except Exception as error:  # noqa: BLE001 - a database that goes away, of whatever kind, comes back
                self._failed(error)
                if is_damage(error):
                    remove(self._folder)
                self._stop.wait(RETRY_SECONDS)

    def _work(self, indexing: "Indexing") -> None:
        looked_at, forgot_at, traces = 0.0, 0.0, None
        while not self._stop.is_set() and self._charsets() == indexing.charsets:
            began = time.monotonic()
            if not _has_room(self._folder):
                self._stop.wait(RETRY_SECONDS)
                continue
            if indexing.add(self._rest):
                continue
            if began - looked_at > ROUND_SECONDS:
                looked_at, before, traces = began, traces, indexing.traces()
                if traces != before or began - forgot_at > DAY_SECONDS:
                    forgot_at = began
                    indexing.forget(lambda: self._stop.wait(PAUSE_SECONDS))
            self._stop.wait(IDLE_SECONDS)

    def _rest(self, worked: float) -> None:
        """Leave the interpreter to others, so long that work takes no more than its share."""
        self._stop.wait(worked * (1 / SHARE - 1))


class Indexing:
    """The steps of indexing, on a connection that reads the journal and one that writes the index.

    `charsets`: the set that holds on each channel where MSH-18 is empty.
    """

    def __init__(self, journal: Connection, index: SqliteConnection, charsets: Mapping[str, str] | None = None) -> None:
        self._journal = journal
        self._index = index
        self.charsets = charsets or {}
        self._index.execute(READ_IN, (_written(self.charsets),))

    def is_ours(self) -> bool:
        """Say whether the index was made of this journal, read in these sets."""
        same = self._index.execute(CHARSETS).fetchone()[0] == _written(self.charsets)
        return same and _is_of(self._journal, *self._index.execute(INDEXED).fetchone())

    def add(self, rest: Callable[[float], None] = lambda _worked: None) -> bool:
        """Index the next entries; say whether there were as many as a step takes.

        `rest` is called after each PIECE and at the end, with the seconds of work since, and may wait.
        """
        last, _digest = self._index.execute(INDEXED).fetchone()
        rows = self._journal.execute(BODIES, (last, PAGE)).fetchall()
        if rows:
            self._index.execute("BEGIN")
            about: list[tuple[int, str]] = []
            self._index.executemany(ADD, _documents(rows, self.charsets, rest, about))
            person_index.add(self._index, about)
            began = time.monotonic()
            self._index.execute(ADVANCE, (rows[-1][0], *self._journal.execute(DIGEST, (rows[-1][0],)).fetchone()))
            self._index.execute("COMMIT")
            rest(time.monotonic() - began)
        return len(rows) == PAGE

    def traces(self) -> tuple[int | None, ...]:
        """Return what changes when retention takes something away."""
        found: tuple[int | None, ...] = self._journal.execute(TRACES).fetchone()
        return found

    def forget(self, stopped: Callable[[], bool] = lambda: False) -> int:
        """Take out what has left the journal, until nothing of it is in the file; return how many bodies it was.

        `stopped` is asked between two steps, and may wait.
        """
        forgotten = last = 0
        while not stopped() and (rows := self._index.execute(DOCUMENTS, (last, DOCUMENTS_AT_ONCE)).fetchall()):
            last = rows[-1][0]
            listed = json_list([seq for (seq,) in rows])
            gone = [seq for (seq,) in self._journal.execute(GONE, (listed,)).fetchall()]
            if gone:
                self._index.execute(FORGET, (json_list(gone),))
                person_index.forget(self._index, gone)
                forgotten += len(gone)
        if forgotten:
            self._merge(stopped)
        return forgotten

    def _merge(self, stopped: Callable[[], bool]) -> None:
        for merge in MERGES:
            pages = -STEP_PAGES
            while not stopped():
                before = self._index.total_changes
                self._index.execute(merge, (pages,))
                if self._index.total_changes - before < 2:
                    break
                pages = STEP_PAGES


def _written(charsets: Mapping[str, str]) -> str:
    return json.dumps(dict(charsets), sort_keys=True)


def _documents(
    rows: list[tuple[int, bytes, str]],
    charsets: Mapping[str, str],
    rest: Callable[[float], None],
    about: list[tuple[int, str]],
) -> Iterator[tuple[int, str]]:
    """Yield the words of bodies, and list whom each is about; between a piece and the next one there is a rest."""
    began = time.monotonic()
    for place, (seq, raw, channel) in enumerate(rows):
        if place and place % PIECE == 0:
            rest(time.monotonic() - began)
            began = time.monotonic()
        text = text_of(raw, charsets.get(channel, ""))
        about.append((seq, person_of(text)))
        yield seq, " ".join(dict.fromkeys(words(text)))


def open_index(folder: Path) -> SqliteConnection:
    """Open the index for writing, made where it is not there or is of another version."""
    connection = sqlite3.connect(str(folder / FILE), isolation_level=None)
    try:
        if connection.execute(OTHER).fetchone()[0]:
            connection.close()
            remove(folder)
            return open_index(folder)
        for statement in (*SETTINGS, *TABLES):
            connection.execute(statement).fetchall()
    except BaseException:
        connection.close()
        raise
    return connection


def remove(folder: Path) -> None:
    """Take the index away; it is made again, or is not wanted."""
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
        (folder / name).unlink(missing_ok=True)


def _has_room(folder: Path) -> bool:
    """Say whether the disk has room to spare: the journal's own reserve comes first, and twice."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize > 2 * free_bytes_kept(folder)


def _is_of(journal: Connection, last: int, digest: bytes) -> bool:
    found = journal.execute(DIGEST, (last,)).fetchone()
    return last == 0 or (found is not None and found[0] == digest)
