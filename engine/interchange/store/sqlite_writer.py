"""The writer on a file of SQLite: after an I/O error nothing is written any more."""

from pathlib import Path
from typing import Final

from engine import fault
from engine.database.dialect import SQLITE
from engine.database.sqlite import SqliteConnection, SqliteError, is_busy, is_disk_error
from engine.interchange.store.writer import StoreBusyError, StoreFailedError, StoreWriter, WriteJob, blame, wake

# Beyond this the writer waits for readers to leave the write-ahead log; below, it is reused without a wait.
LOG_BYTES: Final = 64 * 1024 * 1024
LOG_WAIT_MS: Final = 250


class SqliteWriter(StoreWriter):
    """Writes each in its savepoint, on a connection that is its own; `log` is the write-ahead log of its file."""

    def __init__(self, connection: SqliteConnection, log: Path) -> None:
        super().__init__()
        self._connection = connection
        self._log = log
        self._log_limit = LOG_BYTES
        # The writes of a killed process reach the disk before anyone reads them.
        shrink(connection, LOG_WAIT_MS)
        self._thread.start()

    def _end(self) -> None:
        self._connection.close()

    def _idle(self) -> None:
        """Do nothing: a file stays where it is."""

    def _carry_out(self, batch: list[WriteJob]) -> None:
        self._commit(batch)
        size = self._log_size(batch)
        wake(batch)
        self._bound_log(size)

    def _commit(self, batch: list[WriteJob]) -> None:
        try:
            self._check()
            self._connection.execute(SQLITE.writing)
            for job in batch:
                self._do(job)
            fault.point("F28")
            self._connection.execute("COMMIT")
            self.commits += 1
            self.writes += len(batch)
            fault.point("F29")
        except Exception as error:  # noqa: BLE001 - after any error the state of the disk is unknown; no write succeeds
            # The wait for a lock precedes every write.
            self.failed = self.failed or not is_busy(error)
            blame(batch, StoreFailedError if self.failed else StoreBusyError, error)
            self._undo()

    def _do(self, job: WriteJob) -> None:
        self._connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(self._connection)
        except Exception as error:  # a fault in one request must not take the others of its commit along
            if is_disk_error(error):
                raise
            job.error = error
            self._connection.execute("ROLLBACK TO job")
        self._connection.execute("RELEASE job")

    def _check(self) -> None:
        if self.failed:
            raise StoreFailedError

    def _log_size(self, batch: list[WriteJob]) -> int:
        """Return the size of the write-ahead log; without the log no commit is known to be on disk."""
        try:
            return self._log.stat().st_size
        except OSError as error:
            self.failed = True
            blame(batch, StoreFailedError, error)
            return 0

    def _bound_log(self, size: int) -> None:
        if size < self._log_limit:
            return
        try:
            done = shrink(self._connection, LOG_WAIT_MS)
        except SqliteError:
            self.failed = True
            return
        self._log_limit = LOG_BYTES if done else size + LOG_BYTES // 4

    def _undo(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except SqliteError:
            return


def shrink(connection: SqliteConnection, wait_ms: int) -> bool:
    """Move the write-ahead log into the file and free its room; False where readers kept it for longer."""
    connection.execute(f"PRAGMA busy_timeout={wait_ms}").fetchall()
    try:
        busy: int = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]
    finally:
        connection.execute("PRAGMA busy_timeout=10000").fetchall()
    return not busy
