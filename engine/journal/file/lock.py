"""The lock on a data folder: one engine writes, a second is refused."""

import contextlib
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
    """An exclusive lock which the kernel drops with the process, however it ends.

    It is on a file that names the process, and on the folder itself: who removes the file lets no second engine in.
    """

    def __init__(self, folder: Path) -> None:
        """Take the lock; JournalUnusableError where somebody else holds it or the folder cannot be written."""
        self._folder = _locked(folder, folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._descriptor = _locked(folder, folder / FILE, os.O_RDWR | os.O_CREAT)
        except BaseException:
            os.close(self._folder)
            raise
        with contextlib.suppress(OSError):  # on a full disk nobody is named
            give_to_owner(self._descriptor, folder)
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Give the lock back."""
        os.close(self._descriptor)
        os.close(self._folder)


def _locked(folder: Path, path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _unusable(folder, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise _held(folder) from error
    return descriptor


def _held(folder: Path) -> JournalUnusableError:
    holder = ""
    with contextlib.suppress(OSError):
        holder = (folder / FILE).read_text("ascii", "replace").strip()
    return JournalUnusableError(
        f"another engine (process {holder or 'unknown'}) writes the journal in {folder}: stop it, "
        "or choose another --data"
    )


def _unusable(folder: Path, error: OSError) -> JournalUnusableError:
    return JournalUnusableError(
        f"the data folder {folder} cannot be written ({error.strerror}): mend its owner and permissions, "
        "or choose another with --data"
    )
