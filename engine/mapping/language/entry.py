"""Entries of lists as authors write them: which part of the list an entry speaks for."""

from typing import Any, Final

from engine.mapping.language.expression import FIELD

EXTENSION: Final = "extension"


def slice_of(element: str, entry: Any) -> str:
    """Return the name of an entry's slice: its `slice`, its url, its source, or else the first field that it names.

    Empty where it names none.
    """
    if isinstance(entry, dict):
        each = entry.get("each")
        own = entry.get("url") if element == EXTENSION else each[0] if isinstance(each, list) else each
        if named := str(entry.get("slice") or own or ""):
            return named
    return _first_field(entry)


def _first_field(entry: Any) -> str:
    """Return the first field that stands in an entry, as `PID-15`."""
    if isinstance(entry, str):
        match = FIELD.search(entry)
        return f"{match[1]}-{match[2]}" if match else ""
    parts = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
    return next((found for part in parts if (found := _first_field(part))), "")
