"""Backends of a journal, as its writer uses them: opening, disk space, checkpoints, what to do after an error.

A thread with a connection of its own does it while the writer goes on (SQLite's PASSIVE mode). What is committed in the
meantime keeps the log from beginning anew: that little the writer moves itself, between two commits.
"""

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from engine.database.sqlite import SqliteConnection, is_busy, is_disk_error, is_full
from engine.errors import DiskReserveError, JournalError, JournalFailedError
from engine.journal.file.database import (
    FILE,
    LOG_BYTES,
    log_length,
    move_log,
    open_beside,
    open_writer,
    page_bytes,
    shrink,
)
from engine.journal.file.reserve import DiskReserve
from engine.journal.write.transactions import Transactions
from engine.journal.write.turns import FileTurns

LOOK_SECONDS: Final = 0.1


class Checkpointer:
    """Moves the log once a limit of bytes is not in the file yet; a failure stops the writer."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._rest = False
        self._error: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, name="checkpoint", daemon=True)

    def start(self) -> None:
        """Begin to look after the log."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way, and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def leaves_a_rest(self) -> bool:
        """Say whether the writer is to move what it has added since; once for each time. Raises what went wrong."""
        if self._error is not None:
            raise self._error
        rest, self._rest = self._rest, False
        return rest

    def _live(self) -> None:
        try:
            with closing(open_beside(self._path)) as connection:
                while not self._stop.wait(LOOK_SECONDS):
                    self._look(connection)
        except BaseException as error:  # noqa: BLE001 - handed to the writer, which stops
            self._error = error

    def _look(self, connection: SqliteConnection) -> None:
        pages, moved = log_length(connection)
        if (pages - moved) * page_bytes(connection) < self._most_bytes:
            return
        try:
            move_log(connection)
            self._rest = True
        except Exception as error:
            if not is_full(error):
                raise


class RecoveryAction(Enum):
    """What the writer does with a batch after an error.

    AGAIN: try it again at once. BUSY (a lock is held), FULL (no disk space), AWAY (the database cannot be reached):
    refuse new messages, let the rest wait. DOUBT: find out whether it was committed. END: stop writing. ITS_OWN: one
    job is at fault; run each job by itself.
    """

    AGAIN = auto()
    BUSY = auto()
    FULL = auto()
    AWAY = auto()
    DOUBT = auto()
    END = auto()
    ITS_OWN = auto()


class SharedJournal(NamedTuple):
    """A journal that nodes share: its database, and what this node says of itself.

    `home` names its data folder, whose lock says that its earlier processes have ended. `configuration` is a digest.
    In other threads `took_over` is called with a node that has died and how many deliveries were taken over, and
    `heard` where another node may have changed something: at a notice of it, and each second.
    """

    address: str
    name: str
    home: str
    version: str
    configuration: str
    took_over: Callable[[str, int], None]
    heard: Callable[[], None]


class Lease(Protocol):
    """What a node may rely on for a while."""

    @property
    def seconds_left(self) -> float:
        """How much longer nobody else takes over what this node has claimed."""

    @property
    def leads(self) -> bool:
        """Whether this node does what only one does."""

    @property
    def incarnation(self) -> int:
        """Return the number of this process among all that ever were nodes."""

    @property
    def away(self) -> bool:
        """Whether the journal cannot be reached."""


class JournalBackend(Protocol):
    """The database of a journal, called in the writer's thread only. `lease` is None where no other node shares it."""

    @property
    def lease(self) -> Lease | None:
        """Return the lease of a node, once it is one."""

    def open(self) -> Transactions:
        """Open it; JournalUnusableError says what to mend."""

    def admit(self, size: int) -> None:
        """Raise DiskReserveError where there is no room for `size` bytes more."""

    def look_after(self) -> None:
        """Do what is to be done between two batches."""

    def make_room(self, times: int) -> None:
        """Make room after a batch found none, `times` in a row."""

    def tidy(self) -> None:
        """Make durable what is not yet, and give room back, as far as there is room for that."""

    def commit(self) -> bool:
        """Make durable what is not yet; False where there is no room for that."""

    def come_back(self) -> None:
        """Reach a database that was away again; raises what AWAY is said of where it still is."""

    def recovery(self, error: BaseException) -> RecoveryAction:
        """Say what an error means."""

    def refusal(self, action: RecoveryAction) -> JournalError:
        """Return the error that refuses a sender."""

    def stop(self) -> None:
        """End the threads that work next to the writer."""

    def abandon(self) -> None:
        """Write nothing any more, as nobody knows what is there."""

    def close(self) -> None:
        """Let go of it."""


class FileBackend:
    """A SQLite file in a folder that this process has for itself."""

    lease: Lease | None = None

    def __init__(self, folder: Path, reserve: DiskReserve, key: bytes | None) -> None:
        self._folder = folder
        self._reserve = reserve
        self._key = key

    def open(self) -> Transactions:
        """Open the file; on a disk without room for that with what the reserve has."""
        try:
            return self._open()
        except Exception as error:
            if not is_full(error.__cause__ or error):
                raise
            self._reserve.give_up()
            return self._open()

    def _open(self) -> Transactions:
        log_bytes = self._reserve.log_bytes(LOG_BYTES)
        self._connection = open_writer(self._folder, log_bytes)
        self._transactions = Transactions(self._connection, self._key, FileTurns(self._connection))
        self._checkpointer = Checkpointer(self._folder / FILE, log_bytes // 2)
        self._checkpointer.start()
        return self._transactions

    def admit(self, size: int) -> None:
        """Raise DiskReserveError where the disk is short; its log is made smaller then, at most once a second."""
        try:
            self._reserve.admit(size)
        except DiskReserveError:
            if self._reserve.should_shrink():
                self.tidy()
            raise

    def look_after(self) -> None:
        """Move what was added to the log while the checkpointer moved the rest, so that it begins anew."""
        if self._checkpointer.leaves_a_rest() and self.commit():
            self._unless_full(lambda: move_log(self._connection))

    def make_room(self, times: int) -> None:
        """Make room first from the log, then from the reserve."""
        if times == 2:
            self._reserve.give_up()
        self.tidy()

    def tidy(self) -> None:
        """Commit what is not yet durable and give the log's room back."""
        self.commit()
        self._unless_full(lambda: shrink(self._connection))

    def commit(self) -> bool:
        """Make durable what is not yet; False where the disk has no room for that."""
        return self._unless_full(self._transactions.commit)

    def come_back(self) -> None:
        """Do nothing: a file is never away."""

    def recovery(self, error: BaseException) -> RecoveryAction:
        """Return the recovery action for an error of SQLite or of the disk."""
        if is_busy(error):
            return RecoveryAction.BUSY
        if is_full(error):
            return RecoveryAction.FULL
        if is_disk_error(error) or isinstance(error, JournalFailedError):
            return RecoveryAction.END
        return RecoveryAction.ITS_OWN

    def refusal(self, action: RecoveryAction) -> JournalError:
        """Return the error that refuses a sender."""
        if action is RecoveryAction.BUSY:
            return JournalError("another program holds the journal's lock: end it")
        return DiskReserveError()

    def stop(self) -> None:
        """End the checkpointer."""
        with suppress(AttributeError):
            self._checkpointer.stop()

    def abandon(self) -> None:
        """Leave the file as it is: closing it would write."""

    def close(self) -> None:
        """Move all into the file, as far as disk and readers let us, and close it."""
        self.tidy()
        self._connection.close()

    def _unless_full(self, work: Callable[[], None]) -> bool:
        """Do what can be left undone on a full disk: nothing that was answered hangs on it."""
        try:
            work()
        except Exception as error:
            if not is_full(error):
                raise
            self._transactions.roll_back()
            return False
        return True
