"""Where the files stand that ship with the engine: mappings, channels, samples."""

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent.parent


def shipped(name: str) -> Path:
    """Return the folder `mappings`, `channels` or `samples` that ships with this installation.

    In a wheel they are inside the package, in a checkout next to it.
    """
    inside = _PACKAGE / "shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
