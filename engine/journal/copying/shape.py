"""What a journal is made of: its tables, as this program's steps make them, with what a copy needs to know of each."""

from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from sqlite_utils import Database

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
