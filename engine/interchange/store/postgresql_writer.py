"""The writer on PostgreSQL: of all processes one commits at a time, and a server that goes away is waited for.

A transaction takes a lock of the database first, and keeps it until it has ended. So nothing that one process decides
by what it reads is changed by another before it has written, keys and rows of the access log come in the order of
commits, and the outcome of a commit whose answer was lost can be read: with the lock taken, that commit is over.
Serializable transactions would gain nothing: the log's rows each follow the one before, so that any two collide.
"""

import secrets
from contextlib import suppress
from time import monotonic, sleep
from typing import Final

from engine import fault
from engine.database.postgresql import (
    PostgresqlConnection,
    PostgresqlError,
    connect,
    end_stalled,
    is_again,
    is_busy,
    is_full,
    is_late,
    is_lost,
    server_fault,
)
from engine.interchange.store.postgresql_steps import HELD, NAME, SESSION, TERM_LOCK, WRITING
from engine.interchange.store.writer import (
    StoreAwayError,
    StoreBusyError,
    StoreFailedError,
    StoreInDoubtError,
    StoreWriter,
    WriteJob,
    blame,
    wake,
)
from engine.telemetry import logger

LOOK_SECONDS: Final = 1.0
# How long a server that went away during a commit is waited for, so that it may say what became of that.
OUTCOME_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 0.25
# A process that is silent for this long (it was stopped, or its machine was cut off) loses its locks; it considers
# itself without them a little earlier.
SESSION_SECONDS: Final = 15
TERM_SECONDS: Final = 10.0
OPTIONS: Final = (
    f"{SESSION} -c idle_session_timeout={SESSION_SECONDS}s -c idle_in_transaction_session_timeout={SESSION_SECONDS}s"
)

BEGIN: Final = f"{WRITING}; SELECT edition FROM indexing"  # noqa: S608 - constants
COMMIT: Final = (
    "INSERT INTO process_commit (process, number) VALUES ('{process}', {number})"
    " ON CONFLICT (process) DO UPDATE SET number=excluded.number; COMMIT"
)
COMMITTED: Final = "SELECT number FROM process_commit WHERE process=?"
FORGET: Final = "DELETE FROM process_commit WHERE process=?"
# A process that stalls for this long in the middle of sending loses the lock of writes.
STALLED_SECONDS: Final = 5
TERM: Final = f"SELECT pg_try_advisory_lock({TERM_LOCK})"


class OtherEditionError(Exception):
    """Another adt-engine has indexed the database by other search parameters: searches would miss this one's writes."""


class PostgresqlWriter(StoreWriter):
    """Writes as `StoreWriter` says; `edition` and `serves` are those of `StoreBackend.writer`."""

    idle_seconds = LOOK_SECONDS

    def __init__(self, address: str, edition: str, *, serves: bool) -> None:
        super().__init__()
        self._address = address
        self._edition = edition
        self._serves = serves
        self._process = secrets.token_hex(8)
        self._number = 0
        self._terms = 0
        self._held = False
        self._sure_until = 0.0
        self._looked_at = 0.0
        self._rest_until = 0.0
        self._connection: PostgresqlConnection | None = None
        self._connect()
        self._idle()
        self._thread.start()

    @property
    def term(self) -> int:
        """0 where another process does what only one does, or where this is not sure."""
        return self._terms if self._held and monotonic() < self._sure_until else 0

    def _end(self) -> None:
        if self._connection is not None:
            with suppress(PostgresqlError):
                self._connection.execute(FORGET, (self._process,))
            self._connection.close()

    def _idle(self) -> None:
        """Check that the server is there, and ask for the lock of what only one process does."""
        self._looked_at = monotonic()
        try:
            connection = self._connected()
            if self._serves and not self._held:
                (held,) = connection.execute(TERM).fetchone() or (False,)
                if held:
                    self._terms, self._held = self._terms + 1, True
            else:
                connection.execute("SELECT 1")
            self._sure()
        except PostgresqlError as error:
            self._lose(error)
            self._connect()
        except StoreAwayError:
            return

    def _carry_out(self, batch: list[WriteJob]) -> None:
        if self._serves and not self._held and monotonic() - self._looked_at > LOOK_SECONDS:
            self._idle()
        try:
            self._check()
            self._begin()
            self._work(batch)
            self._commit(batch)
        except Exception as error:  # noqa: BLE001 - after any error nothing of this commit is there
            self._refuse(batch, error)
        wake(batch)

    def _check(self) -> None:
        if self.failed:
            raise OtherEditionError

    def _begin(self) -> None:
        """Begin a transaction, on a new connection if the former one is lost: nothing was written yet."""
        try:
            self._locked(self._connected())
        except PostgresqlError as error:
            if is_busy(error):
                self._evict()
            if not is_lost(error):
                raise
            self._lose(error)
            self._locked(self._connected())

    def _evict(self) -> None:
        """End the session of a process that keeps the lock and is silent, so that the next write goes on."""
        with suppress(PostgresqlError, StoreAwayError):
            connection = self._connected()
            connection.execute("ROLLBACK")
            end_stalled(connection, HELD, STALLED_SECONDS)

    def _locked(self, connection: PostgresqlConnection) -> None:
        cursor = connection.execute(BEGIN)
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        if self._edition and row is not None and row[0] != self._edition:
            self.failed = True
            logger().error("store failed", reason="the database is indexed by another adt-engine: stop this one")
            raise OtherEditionError

    def _work(self, batch: list[WriteJob]) -> None:
        """Run the writes, each in its savepoint, so that a fault in one undoes only that one."""
        connection = self._connected()
        for job in batch:
            try:
                with connection.together():
                    connection.execute("SAVEPOINT job")
                    job.result = job.work(connection)
                    connection.execute("RELEASE job")
            except Exception as error:
                if isinstance(error, PostgresqlError) and _is_of_all(error):
                    raise
                job.error = error
                connection.execute("ROLLBACK TO job; RELEASE job")

    def _commit(self, batch: list[WriteJob]) -> None:
        fault.point("F28")
        self._number += 1
        try:
            self._connected().execute(COMMIT.format(process=self._process, number=self._number))
        except PostgresqlError as error:
            if not is_lost(error):
                raise
            self._lose(error)
            if not self._was_committed(error):
                raise StoreAwayError from error
        self._sure()
        self.commits += 1
        self.writes += len(batch)
        fault.point("F29")

    def _was_committed(self, error: Exception) -> bool:
        """Return the outcome of a commit whose answer was lost; StoreInDoubtError without an answer in time.

        By a row, not by the transaction's number: after a crash of the server that may be another one's.
        """
        until = monotonic() + OUTCOME_SECONDS
        while True:
            try:
                connection = self._connected()
                connection.execute(WRITING)
                row = connection.execute(COMMITTED, (self._process,)).fetchone()
                connection.execute("ROLLBACK")
                return row is not None and row[0] >= self._number
            except PostgresqlError as again:
                self._lose(again)
            except StoreAwayError:
                pass
            if monotonic() > until:
                raise StoreInDoubtError from error
            sleep(RETRY_SECONDS)

    def _refuse(self, batch: list[WriteJob], error: Exception) -> None:
        """Undo a transaction and fail all of its writes."""
        kind: type[StoreFailedError] = StoreFailedError if self.failed else StoreBusyError
        if isinstance(error, StoreAwayError):
            kind = type(error)
        elif isinstance(error, PostgresqlError) and is_lost(error):
            kind = StoreAwayError
            self._lose(error)
        blame(batch, kind, error)
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except Exception as again:  # noqa: BLE001 - whatever it is, the thread must go on, on another connection
            self._lose(again)

    def _connected(self) -> PostgresqlConnection:
        """Return the connection, made anew where it was lost; StoreAwayError where that fails."""
        if self._connection is None:
            self._connect()
        if self._connection is None:
            raise StoreAwayError
        return self._connection

    def _connect(self) -> None:
        if monotonic() < self._rest_until:
            return
        try:
            connection = connect(self._address, name=NAME, options=OPTIONS)
            fault_of_server = server_fault(connection)
        except PostgresqlError as error:
            self._lose(error)
            return
        if fault_of_server:
            # It was usable at the start: its operators must undo the change since.
            connection.close()
            self._lost(fault_of_server)
            return
        self._connection = connection
        if self.away:
            self.away = False
            logger().info("database back")

    def _lose(self, error: Exception) -> None:
        """Drop a lost connection and its locks."""
        self._lost(type(error).__name__)

    def _lost(self, reason: str) -> None:
        self._held = False
        self._rest_until = monotonic() + RETRY_SECONDS
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            # The next try comes at once: often only the connection was lost.
            self._rest_until = 0.0
        elif not self.away:
            self.away = True
            logger().error("database lost", reason=reason)

    def _sure(self) -> None:
        self._sure_until = monotonic() + TERM_SECONDS


def _is_of_all(error: Exception) -> bool:
    """Say whether an error is that of the database, not of one statement or its values."""
    return is_lost(error) or is_again(error) or is_full(error) or is_busy(error) or is_late(error)
