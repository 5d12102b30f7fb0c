"""A connection as the rooms that ask it see it, whichever database is behind it.

Texts are in SQLite's words; a connection to PostgreSQL renders them (dialect.py). Connections begin no transaction by
themselves.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, cast

import orjson

from engine.database.dialect import lossless
from engine.database.sqlite import SqliteConnection, SqliteRow


class Cursor(Protocol):
    """What came of a statement."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """Return the next row, None after the last."""

    def fetchall(self) -> list[Any]:
        """Return all rows that are left."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the rows that are left."""

    def close(self) -> None:
        """Let go of rows that nobody will read."""


class Row(Protocol):
    """A row that is read by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of a column."""

    def keys(self) -> Iterable[str]:
        """Return the names of the columns."""


class Connection(Protocol):
    """One connection to a database, used by one thread at a time."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Cursor:
        """Run a statement."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> Cursor:
        """Run a statement for each of several rows of values."""

    def close(self) -> None:
        """End the connection; what was not committed is undone."""


def by_name(connection: Connection, query: str, values: Sequence[object] = ()) -> Cursor:
    """Ask a query as `execute` does; its rows are read by the names of their columns."""
    if isinstance(connection, SqliteConnection):
        cursor = connection.cursor()
        cursor.row_factory = SqliteRow
        return cast(Cursor, cursor.execute(query, values))
    return cast(Cursor, connection.by_name(query, values))  # type: ignore[attr-defined]


def as_stored(connection: Connection, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a query, whatever a disk made of their texts: what is no UTF-8 becomes surrogates."""
    if isinstance(connection, SqliteConnection):
        kept, connection.text_factory = connection.text_factory, lossless
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.text_factory = kept
    return cast(list[tuple[Any, ...]], connection.as_stored(query, values))  # type: ignore[attr-defined]


def together(connection: Connection) -> AbstractContextManager[object]:
    """Send statements on without waiting for what comes of each, where a database is a round trip away.

    An error then comes with a later statement or the end of the block, and `rowcount` is not known within.
    """
    if isinstance(connection, SqliteConnection):
        return nullcontext()
    return cast(AbstractContextManager[object], connection.together())  # type: ignore[attr-defined]


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Do what is within in one transaction."""
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def refusal_of(error: BaseException) -> str:
    """Return what a database calls a statement's failure (`42501 InsufficientPrivilege`); '' for other errors.

    The text of the error is left out, as it may repeat values.
    """
    name = type(error).__name__
    if hasattr(error, "sqlstate"):  # psycopg's, which is loaded only where it is used
        return f"{error.sqlstate or ''} {name}".strip()
    code = getattr(error, "sqlite_errorcode", None)
    return "" if code is None else f"{getattr(error, 'sqlite_errorname', code)} {name}"


def json_list(values: Sequence[object]) -> str:
    """Return values as a JSON list: what `json_each` reads, and what a column of several holds."""
    return orjson.dumps(values).decode() if values else "[]"
