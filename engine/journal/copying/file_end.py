"""A folder's file as an end of a copy. An unfinished copy has a temporary name next to the final one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from engine.database.dialect import NUL, with_nul, without_nul
from engine.database.durable import make_folder
from engine.database.sqlite import SqliteConnection, SqliteError, failure_of
from engine.errors import CopyError, JournalUnusableError
from engine.journal.copying.ends import DONE, Row, TableShape
from engine.journal.file.database import COPYING, FILE, RESTORING, barrier, open_reader, open_to_read, open_to_write
from engine.journal.file.lock import FolderLock, give_to_owner
from engine.journal.file.sealing import textual
from engine.journal.maintenance.backup import keep
from engine.journal.opening import address_of

# Pages in memory while a file is filled: its indexes are written at random places.
CACHE_KIB: Final = 128 * 1024
# The highest number that a table has given, where those of rows that are gone are not given again.
GIVEN: Final = "SELECT seq FROM sqlite_sequence WHERE name = ?"
# It goes on after this one.
GIVE_ON: Final = "UPDATE sqlite_sequence SET seq = ? WHERE name = ?"
# It gave numbers, though it has no row.
GAVE: Final = """
INSERT INTO sqlite_sequence (seq, name)
SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = ?2)
"""


class _FileEnd:
    """What both ends have in common."""

    def __init__(self, folder: Path, lock: FolderLock, connection: SqliteConnection) -> None:
        self.name = str(folder)
        self.connection = connection
        self._folder = folder
        self._lock = lock

    def rows(self, table: TableShape) -> Iterator[Row]:
        """Yield the rows of a table in no order, as PostgreSQL would keep them."""
        return _kept(table, self.connection.execute(table.select))

    def rows_after(self, table: TableShape, count: int) -> Iterator[Row]:
        """Yield the rows of a table in the order of its key, after the first `count`."""
        return _kept(table, self.connection.execute(f"{table.in_order} LIMIT -1 OFFSET ?", (count,)))

    def highest(self, table: TableShape) -> int:
        """Return the highest number that the table's own column has given; 0 where it gave none."""
        highest = int(self.connection.execute(table.highest).fetchone()[0])
        given = self.connection.execute(GIVEN, (table.name,)).fetchone() if table.lasting else None
        return max(highest, given[0]) if given else highest

    def said(self, error: BaseException) -> str | None:
        """Return what an error of SQLite's or of the disk says; None for another error."""
        return failure_of(error)

    def close(self) -> None:
        """Let go of the folder."""
        self.connection.close()
        self._lock.release()


class FileSource(_FileEnd):
    """The journal of a folder on which no engine runs."""

    def __init__(self, folder: Path) -> None:
        """Take the folder's lock; JournalUnusableError where an engine runs on it, or it has no journal."""
        if address := address_of(folder):
            raise CopyError(f"the journal of {folder} is in {address}: name that one by --from")
        if not (folder / FILE).exists():
            open_reader(folder)  # says what is missing
        lock = FolderLock(folder)
        try:
            super().__init__(folder, lock, open_reader(folder))
        except BaseException:
            lock.release()
            raise


class FileTarget(_FileEnd):
    """A folder without a journal, or with a part of one."""

    def __init__(self, folder: Path) -> None:
        """Make the folder, take its lock and open the file; CopyError where it has a journal."""
        try:
            make_folder(folder)
        except OSError as error:
            raise CopyError(f"the folder {folder} cannot be made ({error.strerror}): name another by --to") from error
        lock = FolderLock(folder)
        try:
            _refuse_full(folder)
            self._part = folder / COPYING
            self.is_marked = _is_marked(self._part)
            if not self.is_marked:
                with self._part.open("xb") as file:
                    self._part.chmod(0o600)
                    give_to_owner(file.fileno(), folder)
            super().__init__(folder, lock, open_to_write(self._part))
            self.connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        except BaseException:
            lock.release()
            raise

    def add(self, table: TableShape, rows: Sequence[Row]) -> None:
        """Add rows to a table, in a transaction that is open."""
        self.connection.executemany(table.insert, (_with_nuls(table, row) for row in rows))

    def settle_down(self) -> None:
        """Do nothing: the queries tell SQLite's planner which way to go."""

    def count_on(self, numbers: Mapping[TableShape, int]) -> None:
        """Let the columns that never give a number again go on after these; the others go on after the highest."""
        for table, number in numbers.items():
            if table.lasting and number:
                self.connection.execute(GAVE, (number, table.name))
                self.connection.execute(GIVE_ON, (number, table.name))

    def keep(self) -> None:
        """Give the file its name."""
        barrier(self.connection)
        self.connection.close()
        keep(self._part, self._folder / FILE)


def _refuse_full(folder: Path) -> None:
    if address := address_of(folder):
        raise CopyError(f"the journal of {folder} is in {address}: name a new folder by --to")
    for name in (FILE, RESTORING):
        if (folder / name).exists():
            raise CopyError(f"{folder} holds {name} already: name a new folder by --to")


def _is_marked(part: Path) -> bool:
    """Say whether an earlier try has left its mark; what it left before its first, or after its last, is taken away."""
    if part.exists():
        with suppress(SqliteError, JournalUnusableError), closing(open_to_read(part)) as connection:
            return bool(connection.execute(DONE).fetchall())
    for ending in ("-wal", "-shm", ""):
        part.with_name(part.name + ending).unlink(missing_ok=True)
    return False


def _kept(table: TableShape, rows: Iterator[Row]) -> Iterator[Row]:
    """Yield rows as PostgreSQL keeps them: no NUL in a text, and what is sealed in it is text."""
    texts = table.texts
    for row in rows:
        for place in texts:
            value = row[place]
            if value.__class__ is bytes or (value is not None and ("\0" in value or "\\u0000" in value)):
                yield tuple(_text(one) if at in texts else one for at, one in enumerate(row))
                break
        else:
            yield row


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return textual(value)
    return value if value is None else without_nul(value)


def _with_nuls(table: TableShape, row: Row) -> Row:
    """Return a row with the NULs that its texts have in SQLite."""
    if not any(row[place] is not None and NUL in row[place] for place in table.texts):
        return row
    return tuple(with_nul(one) if at in table.texts and one is not None else one for at, one in enumerate(row))
