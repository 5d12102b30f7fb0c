"""Places where a journal lives, as its writer sees them: how to open one, its room, and what an error there means."""

from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple, Protocol

from engine.database.sqlite import is_busy, is_disk_error, is_full
from engine.errors import DiskReserveError, JournalError, JournalFailedError
from engine.journal.file.database import FILE, LOG_BYTES, move_log, open_writer, shrink
from engine.journal.file.reserve import DiskReserve
from engine.journal.write.checkpoint import Checkpointer
from engine.journal.write.transactions import Transactions
from engine.journal.write.turns import FileTurns


class Trouble(Enum):
    """What an error means for the batch that met it.

    AGAIN: the same may succeed at once. BUSY: somebody holds a lock; FULL: there is no room; AWAY: the database cannot
    be reached: new messages are refused, the rest waits. DOUBT: whether it was committed is not known. END: nothing may
    be written any more. ITS_OWN: one job of the batch is at fault.
    """

    AGAIN = auto()
    BUSY = auto()
    FULL = auto()
    AWAY = auto()
    DOUBT = auto()
    END = auto()
    ITS_OWN = auto()


class Shared(NamedTuple):
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


class Place(Protocol):
    """Where a journal lives; all of it is called in the writer's thread. `lease` is None where nobody shares it."""

    @property
    def lease(self) -> Lease | None:
        """Return the lease of a node, once it is one."""

    def open(self) -> Transactions:
        """Open it; JournalUnusableError says what to mend."""

    def admit(self, size: int) -> None:
        """Raise DiskReserveError where there is no room for so many bytes more."""

    def look_after(self) -> None:
        """Do what is to be done between two batches."""

    def make_room(self, times: int) -> None:
        """Make room where there was none for a batch, so many times in a row."""

    def tidy(self) -> None:
        """Make durable what is not yet, and give room back, as far as there is room for that."""

    def commit(self) -> bool:
        """Make durable what is not yet; False where there is no room for that."""

    def come_back(self) -> None:
        """Reach a database that was away again; raises what AWAY is said of where it still is."""

    def trouble(self, error: BaseException) -> Trouble:
        """Say what an error means."""

    def refusal(self, trouble: Trouble) -> JournalError:
        """Return what a sender is refused with."""

    def stop(self) -> None:
        """End what works beside the writer."""

    def abandon(self) -> None:
        """Write nothing any more, as nobody knows what is there."""

    def close(self) -> None:
        """Let go of it."""


class FilePlace:
    """A file of SQLite's in a folder that this process has for itself."""

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

    def trouble(self, error: BaseException) -> Trouble:
        """Say what an error of SQLite's or of the disk means."""
        if is_busy(error):
            return Trouble.BUSY
        if is_full(error):
            return Trouble.FULL
        return Trouble.END if is_disk_error(error) or isinstance(error, JournalFailedError) else Trouble.ITS_OWN

    def refusal(self, trouble: Trouble) -> JournalError:
        """Return what a sender is refused with."""
        if trouble is Trouble.BUSY:
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
