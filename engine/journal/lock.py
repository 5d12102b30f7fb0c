"""The lock on a data folder: one engine writes, a second is refused."""

import fcntl
import os
from pathlib import Path
from typing import Final

from engine.errors import JournalUnusableError

FILE: Final = "journal.lock"


def give_to_owner(descriptor: int, folder: Path) -> None:
    """Give a file that root made in a folder to the folder's owner, as whom the engine runs."""
    if os.geteuid() == 0:
        owner = folder.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


class FolderLock:
    """An exclusive lock which the kernel drops with the process, however it ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lock; JournalUnusableError where somebody else holds it or the folder cannot be written."""
        path = folder / FILE
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            give_to_owner(self._descriptor, folder)
        except OSError as error:
            raise JournalUnusableError(
                f"the data folder {folder} cannot be written ({error.strerror}): mend its owner and permissions, "
                "or choose another with --data"
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            raise JournalUnusableError(
                f"another engine (process {holder}) writes the journal in {folder}: stop it, or choose another --data"
            ) from error
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)
