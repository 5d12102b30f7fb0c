"""Local names: `#encounter` in a value stands for a resource that the same plan speaks of."""

from collections.abc import Iterable
from typing import Any, Final

LOCAL: Final = "#"


def local_names(value: Any) -> list[str]:
    """Return the local names that a value refers to, in order."""
    found: list[str] = []
    _walk(value if isinstance(value, list | tuple) else (value,), found)
    return found


def _walk(parts: Iterable[Any], found: list[str]) -> None:
    """Add the names of some values; most are texts, for which nothing is called."""
    for part in parts:
        if isinstance(part, dict):
            reference = part.get("reference")
            if isinstance(reference, str) and reference.startswith(LOCAL):
                found.append(reference[1:])
            else:
                _walk(part.values(), found)
        elif isinstance(part, list | tuple):
            _walk(part, found)
