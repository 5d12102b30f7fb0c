"""A folder in memory, for tests that make hundreds of databases and cut off no power: a disk is slow to keep them."""

import shutil
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30


def folder_in_memory(prefix: str = "adt") -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder: in memory where there is room, and else on the disk."""
    roomy = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM_BYTES
    return tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY if roomy else None)
