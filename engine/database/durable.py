"""What makes a file or a name in a folder outlast a power cut."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Let the disk mean what was written to a file, or which names a folder has; OSError where it cannot."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
