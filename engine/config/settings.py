"""Settings from the environment, in the only place that reads it; and where the files are that ship with the engine."""

import os
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent.parent


def shipped(name: str) -> Path:
    """Return the folder `mappings`, `channels` or `samples` that ships with this installation.

    In a wheel they are inside the package, in a checkout next to it.
    """
    inside = _PACKAGE / "shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


FAULT_VARIABLE: Final = "ENGINE_FAULT"
# Where the anchors of the audit trail go, and the private key that signs them.
ANCHORS_VARIABLE: Final = "ENGINE_AUDIT_ANCHORS"
ANCHOR_KEY_VARIABLE: Final = "ENGINE_AUDIT_KEY"
# The data folder of commands that are given none.
DATA_VARIABLE: Final = "ADT_ENGINE_DATA"


def environment(name: str) -> str:
    """Return an environment variable, or the empty string where it is not set."""
    return os.environ.get(name, "")


def child_environment(**more: str) -> dict[str, str]:
    """Return this process's environment with more variables, for a child process."""
    return {**os.environ, **more}
