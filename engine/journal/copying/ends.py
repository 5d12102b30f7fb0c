"""The two ends of a copy as the copier sees them: their tables, and the mark in the target of how far it has come.

The mark is a table of its own, which is there as long as the copy is not finished: a row for each table, written with
the rows of that table, which names what is copied. It is taken away in the transaction that ends the copy.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

from sqlite_utils import Database

from engine.database.connection import Connection, transaction
from engine.errors import CopyError
from engine.journal.claim.claiming import DESTINATIONS, GIVE_BACK
from engine.journal.file.schema import MIGRATIONS

# Every column of every table, but for those of the library's own, and the text that made the table.
COLUMNS: Final = """
SELECT t.name, t.sql, c.name, c.type, c.pk FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
WHERE t.type = 'table' AND substr(t.name, 1, 1) <> '_' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid
"""
# Who holds what is claimed means nothing in another database.
HOLDER: Final = ("delivery", "holder")
TYPES: Final = {"TEXT": "text", "BLOB": "bytea", "REAL": "float8"}


@dataclass(frozen=True, eq=False)
class TableShape:
    """A table: its columns with their types in SQLite's words, and those of its key in order.

    `lasting`: numbers of rows that are gone are never given again.
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    lasting: bool

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _type in self.columns)

    @cached_property
    def types(self) -> tuple[str, ...]:
        """The types of the columns, as PostgreSQL names them."""
        return tuple(TYPES.get(one, "int8") for _name, one in self.columns)

    @cached_property
    def texts(self) -> tuple[int, ...]:
        """The positions of columns of text."""
        return tuple(place for place, (_name, one) in enumerate(self.columns) if one == "TEXT")

    @cached_property
    def number(self) -> str:
        """The column that counts by itself; empty where none does."""
        return self.key[0] if len(self.key) == 1 and dict(self.columns)[self.key[0]] == "INTEGER" else ""

    @cached_property
    def select(self) -> str:
        """The query of its rows, in no order."""
        read = ("0" if (self.name, name) == HOLDER else name for name in self.names)
        return f"SELECT {', '.join(read)} FROM {self.name}"  # noqa: S608 - names of our own

    @cached_property
    def in_order(self) -> str:
        """The query of its rows, in the order of its key."""
        return f"{self.select} ORDER BY {', '.join(self.key)}"

    @cached_property
    def insert(self) -> str:
        """The statement that adds a row."""
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT INTO {self.name} ({', '.join(self.names)}) VALUES ({marks})"  # noqa: S608 - names of our own

    @cached_property
    def count(self) -> str:
        """The query of how many rows it has."""
        return f"SELECT COUNT(*) FROM {self.name}"  # noqa: S608 - names of our own

    @cached_property
    def highest(self) -> str:
        """The query of its highest number."""
        return f"SELECT COALESCE(MAX({self.number}), 0) FROM {self.name}"  # noqa: S608 - names of our own


def shape() -> tuple[TableShape, ...]:
    """Return the tables of a journal, by name."""
    with closing(Database(memory=True, execute_plugins=False)) as blank:
        MIGRATIONS.apply(blank)
        found: dict[str, list[Any]] = {}
        for row in blank.execute(COLUMNS).fetchall():
            found.setdefault(row[0], []).append(row)
    return tuple(_table(name, rows) for name, rows in found.items())


def _table(name: str, rows: list[Any]) -> TableShape:
    columns = tuple((column, kind) for _name, _sql, column, kind, _place in rows)
    key = sorted((place, column) for _name, _sql, column, _kind, place in rows if place)
    return TableShape(name, columns, tuple(column for _place, column in key), "AUTOINCREMENT" in rows[0][1])


Row = tuple[Any, ...]

# A copy begins: the mark.
MARK: Final = "CREATE TABLE copying (name TEXT PRIMARY KEY, done BIGINT NOT NULL, source TEXT NOT NULL)"
# Nothing is copied of a table yet.
BEGIN: Final = "INSERT INTO copying (name, done, source) VALUES (?, 0, ?)"
# How many rows of each table are here, and of which journal.
DONE: Final = "SELECT name, done, source FROM copying"
# How many rows of a table are here now.
KEEP: Final = "UPDATE copying SET done = ? WHERE name = ?"
# The copy is finished.
UNMARK: Final = "DROP TABLE copying"


class CopySource(Protocol):
    """A journal that is copied; nobody writes it before `close`. `name` is for people."""

    name: str

    @property
    def connection(self) -> Connection:
        """The connection that it is read by."""

    def rows(self, table: TableShape) -> Iterator[Row]:
        """Yield the rows of a table in no order, as PostgreSQL would keep them."""

    def rows_after(self, table: TableShape, count: int) -> Iterator[Row]:
        """Yield the rows of a table in the order of its key, after the first `count`."""

    def highest(self, table: TableShape) -> int:
        """Return the highest number that the table's own column has given; 0 where it gave none."""

    def said(self, error: BaseException) -> str | None:
        """Return what an error of this database or its disk says; None for another error."""

    def close(self) -> None:
        """Let go of it."""


class CopyTarget(CopySource, Protocol):
    """Where a journal is copied to; no engine starts on it before the copy is finished."""

    @property
    def is_marked(self) -> bool:
        """Whether an earlier try has left its mark."""

    def add(self, table: TableShape, rows: Sequence[Row]) -> None:
        """Add rows to a table, in a transaction that is open."""

    def settle_down(self) -> None:
        """Make what was copied ready to be asked."""

    def count_on(self, numbers: Mapping[TableShape, int]) -> None:
        """Let the columns that count by themselves go on after these numbers, in a transaction that is open."""

    def keep(self) -> None:
        """Make the finished copy a journal that an engine starts on."""


def marked(target: CopyTarget, tables: Sequence[TableShape], fingerprint: str) -> dict[str, int]:
    """Mark an empty target, or find the mark of the same copy; return how many rows of each table are there.

    CopyError: it holds a journal, or a part of another one.
    """
    connection = target.connection
    if target.is_marked:
        found = connection.execute(DONE).fetchall()
        if {source for _name, _done, source in found} != {fingerprint} or len(found) != len(tables):
            raise CopyError(
                f"{target.name} holds a part of another journal, or this one was changed since: name an empty one, or "
                "empty it, and begin again"
            )
        return {name: done for name, done, _source in found}
    if any(connection.execute(f"{table.select} LIMIT 1").fetchone() is not None for table in tables):
        raise CopyError(f"{target.name} holds a journal already: name an empty one")
    with transaction(connection):
        connection.execute(MARK)
        connection.executemany(BEGIN, [(table.name, fingerprint) for table in tables])
    return dict.fromkeys((table.name for table in tables), 0)


def give_back(connection: Connection) -> int:
    """Let go of what was claimed at the source, in a transaction that is open; return how much."""
    destinations = connection.execute(DESTINATIONS).fetchall()
    return sum(connection.execute(GIVE_BACK, destination).rowcount for destination in destinations)
