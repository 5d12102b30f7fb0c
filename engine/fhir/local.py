"""Local names: `#encounter` in a value stands for a resource that the same plan speaks of."""

from typing import Any, Final

LOCAL: Final = "#"


def local_names(value: Any) -> list[str]:
    """Return the local names that a value refers to, in order."""
    if isinstance(value, dict):
        reference = value.get("reference")
        if isinstance(reference, str) and reference.startswith(LOCAL):
            return [reference[1:]]
        return [name for part in value.values() for name in local_names(part)]
    return [name for part in value for name in local_names(part)] if isinstance(value, list | tuple) else []
