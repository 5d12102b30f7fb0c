"""What makes a file or a name in a folder outlast a power cut."""

import os
from itertools import takewhile
from pathlib import Path


def sync(path: Path) -> None:
    """Let the disk mean what was written to a file, or which names a folder has; OSError where it cannot."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, for its owner only, and sync their names; OSError where that fails."""
    missing = list(takewhile(lambda folder: not folder.exists(), (path, *path.parents)))
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)
