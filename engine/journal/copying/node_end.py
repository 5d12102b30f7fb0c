"""A database of PostgreSQL's as an end of a copy. No node of it begins meanwhile, and none may be alive."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.database.postgresql import PostgresqlConnection, PostgresqlError, error_text, is_full, is_lost, shown
from engine.errors import CopyError
from engine.journal.copying.ends import Row, TableShape
from engine.journal.nodes.database import open_to_copy_from, open_to_copy_into, unusable
from engine.journal.nodes.schema import COPY_LOCK, COPYING, TURN_LOCK, tables

# Take a lock until the connection ends, unless somebody has it.
HOLD: Final = "SELECT pg_try_advisory_lock(?)"
# A node that lives, and for how long at least.
LIVE: Final = """
SELECT name, host, (until - moment()) / 1000000 + 1 FROM node WHERE state = 'live' AND until > moment()
ORDER BY until DESC LIMIT 1
"""
# The highest number that a column has given by itself.
GIVEN: Final = "SELECT COALESCE(pg_sequence_last_value(pg_get_serial_sequence(?, ?)::regclass), 0)"
# It goes on after this one.
GIVE_ON: Final = "SELECT setval(pg_get_serial_sequence(?, ?), ?)"


class _NodeEnd:
    """What both ends have in common."""

    def __init__(self, address: str, connection: PostgresqlConnection) -> None:
        self.name = shown(address)
        self.connection = connection
        try:
            self._stand_still()
        except PostgresqlError as error:
            connection.close()
            raise unusable(address, error) from error
        except BaseException:
            connection.close()
            raise

    def _stand_still(self) -> None:
        """Keep nodes and other copies away until the connection ends; CopyError where one is there."""
        if not self._holds(COPY_LOCK):
            raise CopyError(f"another copy is at work on {self.name}, or an engine is starting on it: wait for its end")
        node = self.connection.execute(LIVE).fetchone()
        if node is not None:
            name, host, seconds = node
            raise CopyError(
                f"node {name} on {host} has the journal in {self.name} open: stop it, or wait {seconds} s if it has "
                "ended without a word"
            )
        # A node that was only paused, and wakes up, waits here for its turn.
        if not self._holds(TURN_LOCK):
            raise CopyError(f"a node is writing the journal in {self.name}: stop it, then try again")

    def _holds(self, lock: int) -> bool:
        return bool((self.connection.execute(HOLD, (lock,)).fetchone() or (False,))[0])

    def rows(self, table: TableShape) -> Iterator[Row]:
        """Yield the rows of a table in no order."""
        return self.connection.copy_out(table.select, table.types)

    def rows_after(self, table: TableShape, count: int) -> Iterator[Row]:
        """Yield the rows of a table in the order of its key, after the first `count`."""
        return self.connection.copy_out(f"{table.in_order} OFFSET {count:d}", table.types)

    def highest(self, table: TableShape) -> int:
        """Return the highest number that the table's own column has given; 0 where it gave none."""
        (highest,) = self.connection.execute(table.highest).fetchone() or (0,)
        given = self.connection.execute(GIVEN, (table.name, table.number)).fetchone() if table.lasting else None
        return max(int(highest), int(given[0])) if given else int(highest)

    def said(self, error: BaseException) -> str | None:
        """Return what an error of PostgreSQL's says; None for another error."""
        if not isinstance(error, PostgresqlError):
            return None
        # What is said of values may repeat them.
        return error_text(error) if is_lost(error) or is_full(error) else type(error).__name__

    def close(self) -> None:
        """Let go of the database."""
        self.connection.close()


class NodeSource(_NodeEnd):
    """The journal of a database without a live node."""

    def __init__(self, address: str) -> None:
        super().__init__(address, open_to_copy_from(address))


class NodeTarget(_NodeEnd):
    """An empty database, or one with a part of a journal."""

    def __init__(self, address: str) -> None:
        super().__init__(address, open_to_copy_into(address))

    @property
    def is_marked(self) -> bool:
        """Whether an earlier try has left its mark."""
        return COPYING in tables(self.connection)

    def add(self, table: TableShape, rows: Sequence[Row]) -> None:
        """Add rows to a table, in a transaction that is open."""
        self.connection.copy_in(table.name, table.names, rows)

    def settle_down(self) -> None:
        """Let the planner know how large the tables are."""
        self.connection.raw("ANALYZE")

    def count_on(self, numbers: Mapping[TableShape, int]) -> None:
        """Let the columns that count by themselves go on after these numbers."""
        for table, number in numbers.items():
            if number:
                self.connection.execute(GIVE_ON, (table.name, table.number, number))

    def keep(self) -> None:
        """Do nothing: without its mark the copy is a journal."""
