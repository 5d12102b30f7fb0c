"""The disk reserve: room kept free, so that what was accepted can still be brought to its end on a full disk."""

import os
import time
from pathlib import Path
from typing import Final

from engine.errors import DiskReserveError

FILE: Final = "journal.reserve"
MOST_BYTES: Final = 512 * 1024 * 1024
SHARE: Final = 0.05
SHRINK_SECONDS: Final = 1.0
KEPT_BYTES: Final = 8 * 1024 * 1024
LEAST_LOG_BYTES: Final = 256 * 1024


def free_bytes_kept(folder: Path) -> int:
    """Return how much of a folder's disk is to stay free: 5 %, at most 512 MiB."""
    disk = os.statvfs(folder)
    return min(int(disk.f_blocks * disk.f_frsize * SHARE), MOST_BYTES)


class DiskReserve:
    """Watches the free bytes of one folder's disk and keeps a file that can be given up.

    `free_bytes`: below this nothing new is accepted; None for 5 % of the disk, at most 512 MiB. The kept file
    is an eighth of that, at most 8 MiB.
    """

    def __init__(self, folder: Path, free_bytes: int | None = None) -> None:
        self._folder = folder
        self.free_bytes = free_bytes_kept(folder) if free_bytes is None else free_bytes
        self._kept = min(self.free_bytes // 8, KEPT_BYTES)
        self._shrunk_at = float("-inf")
        self._short = False
        self._kept_now = False
        self._keep()

    def admit(self, size: int) -> None:
        """Raise DiskReserveError where the disk is too full to accept `size` bytes more."""
        disk = os.statvfs(self._folder)
        self._short = disk.f_bavail * disk.f_frsize - size < self.free_bytes
        if self._short:
            raise DiskReserveError
        self._keep()

    def log_bytes(self, most: int) -> int:
        """Return how long the write-ahead log may grow: on a small disk it must not eat more than half the reserve."""
        return min(most, max(LEAST_LOG_BYTES, self.free_bytes // 2)) if self.free_bytes else most

    def give_up(self) -> None:
        """Free the kept file."""
        self._kept_now = False
        (self._folder / FILE).unlink(missing_ok=True)

    def should_shrink(self) -> bool:
        """Say whether the disk is short and the journal was not made smaller in the last second."""
        now = time.monotonic()
        if not self._short or now - self._shrunk_at < SHRINK_SECONDS:
            return False
        self._shrunk_at = now
        return True

    def _keep(self) -> None:
        """Allocate the file anew where it is missing; a disk without room for it is short already."""
        if self._kept_now or not self._kept:
            return
        path = self._folder / FILE
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(descriptor, 0, self._kept)
            finally:
                os.close(descriptor)
            self._kept_now = True
        except OSError:
            path.unlink(missing_ok=True)
            self._short = True
