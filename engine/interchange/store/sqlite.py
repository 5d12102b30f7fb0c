"""The service's SQLite file, opened durable or not at all, by one service at a time; its readers and its writer."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from sqlite_utils import Database
from sqlite_utils.utils import sqlite3  # type: ignore[attr-defined]  # pysqlite3 where it is installed

from engine import fault
from engine.database.connection import Connection
from engine.database.dialect import SQLITE
from engine.database.durable import make_folder, sync
from engine.database.sqlite import (
    DURABLE,
    Setting,
    SqliteConnection,
    SqliteError,
    is_busy,
    is_disk_error,
    library_fault,
    untaken,
)
from engine.errors import StartError
from engine.interchange.store.backend import DEADLINE, NEVER, passed
from engine.interchange.store.schema import STEPS, migrations, settle
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
        try:
            # SQLite syncs the folder when it makes its files, and says nothing where that fails.
            sync(log.parent)
        except OSError as error:
            connection.close()
            raise _unusable(log.with_name(log.name.removesuffix("-wal")), error) from error
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


T = TypeVar("T")

LOG_PAGES: Final = 4000

SETTINGS: Final[tuple[Setting, ...]] = (
    ("busy_timeout", 10_000, 10_000),
    *DURABLE,
    ("cache_size", -16_384, -16_384),
    ("wal_autocheckpoint", LOG_PAGES, LOG_PAGES),
)
# SQLite checks the deadline each time it has run this number of steps: some tenths of a millisecond.
STEPS_BETWEEN: Final = 20_000


def prepare(path: Path, environment: str = "") -> None:
    """Make the file, readable by its owner only, and bring its tables up to date.

    It belongs to the first `environment` that is named; StartError for any other, where it cannot be used, where it is
    another program's, and where a newer program has changed its tables.
    """
    _check_library()
    try:
        # A file that exists is never opened by other means than SQLite's: closing it would drop SQLite's locks.
        if not path.exists():
            make_folder(path.parent)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = connect(path)
        try:
            _refuse_other(Database(connection), path)
            migrations.apply(Database(connection))
            settle(connection, environment, str(path))
        finally:
            connection.close()
    except (OSError, SqliteError) as error:
        raise _unusable(path, error) from error


def connect(path: Path, *, reading: bool = False) -> SqliteConnection:
    """Return a connection that begins no transaction by itself; one for reading refuses writes.

    StartError: SQLite does not take a setting that durability needs.
    """
    connection = sqlite3.connect(str(path), isolation_level=None, check_same_thread=False, cached_statements=256)
    if setting := untaken(connection, SETTINGS):
        connection.close()
        raise StartError(f"SQLite does not take {setting} for {path}: name a file on a local ext4 or xfs disk")
    if reading:
        connection.execute("PRAGMA query_only=ON")
    return connection


def open_known(path: Path) -> SqliteConnection:
    """Return a connection for reading a database that exists; StartError where it is none that this program made."""
    _check_library()
    try:
        if not path.exists():
            raise StartError(f"there is no database {path}: name another with --database")
        connection = connect(path, reading=True)
        _refuse_other(Database(connection), path)
        missing = STEPS.keys() - {one.name for one in migrations.applied(Database(connection))}
    except (OSError, SqliteError) as error:
        raise _unusable(path, error) from error
    if missing:
        connection.close()
        raise StartError(f"the database {path} is empty, or an older adt-engine's: start the service on it once")
    return connection


def _check_library() -> None:
    if fault := library_fault():
        raise StartError(fault)


def _unusable(path: Path, error: Exception) -> StartError:
    said = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
    return StartError(
        f"the database {path} cannot be used ({said}): mend the file, or the permissions of it and its folder,"
        " or name another with --database"
    )


def _refuse_other(database: Database, path: Path) -> None:
    applied = [one.name for one in migrations.applied(database)]
    if not applied and set(database.table_names()) - {migrations.migrations_table}:
        raise StartError(f"the database {path} is another program's: name another with --database")
    unknown = [name for name in applied if name not in STEPS]
    if unknown:
        raise StartError(
            f"the database {path} was changed by a newer adt-engine (step {unknown[0]}): "
            "install that one, or restore a backup from before"
        )


class SqliteReader:
    """One thread's connection for reading; a query is broken off once the deadline of its request has passed."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path, reading=True)
        self._until = NEVER
        self.connection.set_progress_handler(lambda: passed(self._until), STEPS_BETWEEN)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run `work` on one snapshot; TimeoutError once the request's deadline has passed."""
        self.connection.execute(SQLITE.reading)
        self._until = DEADLINE.get()
        try:
            return work(self.connection)
        except SqliteError as error:
            if passed(self._until):
                raise TimeoutError from error
            raise
        finally:
            self._until = NEVER
            self.connection.execute("COMMIT")

    def close(self) -> None:
        """Let the connection go."""
        self.connection.close()


class SqliteBackend:
    """A file of SQLite, as `backend.StoreBackend` says."""

    shared = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: Lock | None = None

    def claim(self) -> None:
        """Take the right to be the only service; StartError where another has it."""
        self._lock = Lock(self._path)

    def release(self) -> None:
        """Give the right back."""
        if self._lock is not None:
            self._lock.release()

    def prepare(self, environment: str) -> None:
        """Make the file, or bring it up to date."""
        prepare(self._path, environment)

    def reader(self) -> SqliteReader:
        """Return a connection for reading."""
        return SqliteReader(self._path)

    @contextmanager
    def changing(self) -> Iterator[Connection]:
        """Return a connection for a row or two."""
        connection = connect(self._path)
        try:
            yield connection
        finally:
            connection.close()

    def index(self, work: Callable[[Connection, str], None]) -> None:
        """Run `work`; the file's only service is alone."""
        with self.changing() as connection:
            work(connection, SQLITE.writing)

    def writer(self, edition: str, *, serves: bool) -> SqliteWriter:  # noqa: ARG002 - nobody else has the file
        """Return the writer, begun."""
        return SqliteWriter(connect(self._path), Path(f"{self._path}-wal"))


class Lock:
    """The right to be the only service on a database file; StartError where another process has it."""

    def __init__(self, path: Path) -> None:
        try:
            make_folder(path.parent)
            self._file = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StartError(f"the folder of {path} cannot be written ({error.strerror})") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            text = f"another interchange service (process {holder}) uses {path}: stop it, or name another --database"
            raise StartError(text) from error
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the right back."""
        os.close(self._file)
