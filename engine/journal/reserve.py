"""The disk reserve: room kept free, so that what was accepted can still be brought to its end on a full disk."""

import os
import time
from pathlib import Path
from typing import Final

from engine.errors import DiskReserveError

FILE: Final = "journal.reserve"
MOST_BYTES: Final = 512 * 1024 * 1024
SHARE: Final = 0.05
CHECK_SECONDS: Final = 1.0
CHECK_BYTES: Final = 4 * 1024 * 1024
KEPT_BYTES: Final = 8 * 1024 * 1024


class DiskReserve:
    """Watches the free bytes of one folder's disk and keeps a file that can be given up.

    `free_bytes`: below this nothing new is accepted; None for 5 % of the disk, at most 512 MiB. Free space is looked
    at once a second, or after 4 MiB accepted, whichever comes first. The kept file is an eighth of that, at most
    8 MiB.
    """

    def __init__(self, folder: Path, free_bytes: int | None = None) -> None:
        self._folder = folder
        disk = os.statvfs(folder)
        whole = disk.f_blocks * disk.f_frsize
        self.free_bytes = min(int(whole * SHARE), MOST_BYTES) if free_bytes is None else free_bytes
        self._kept = min(self.free_bytes // 8, KEPT_BYTES)
        self._looked_at = float("-inf")
        self._accepted = 0
        self._short = False
        self._keep()

    def admit(self, size: int) -> None:
        """Raise DiskReserveError where the disk is too full to accept `size` bytes more."""
        self._accepted += size
        now = time.monotonic()
        if self._short or now - self._looked_at >= CHECK_SECONDS or self._accepted >= CHECK_BYTES:
            self._look(now)
        if self._short:
            raise DiskReserveError

    def give_up(self) -> bool:
        """Free the kept file; False where it is gone already."""
        self._short = True
        try:
            (self._folder / FILE).unlink()
        except OSError:
            return False
        return True

    def _look(self, now: float) -> None:
        disk = os.statvfs(self._folder)
        self._short = disk.f_bavail * disk.f_frsize < self.free_bytes
        self._looked_at, self._accepted = now, 0
        if not self._short:
            self._keep()

    def _keep(self) -> None:
        """Allocate the file anew where it is missing; a disk without room for it is short already."""
        path = self._folder / FILE
        if not self._kept or path.exists():
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._kept)
        except OSError:
            path.unlink(missing_ok=True)
            self._short = True
        finally:
            os.close(descriptor)
