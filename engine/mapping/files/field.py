"""Fields as files write them, and the name of the slice of a list that an entry describes."""

import re
from typing import Any, Final

EXTENSION: Final = "extension"
# A path into a segment, as PID-3(2).4.1 or PID-3[CX.5=MR].1.
FIELD: Final = re.compile(
    r"([A-Z][A-Z0-9]{2})-(\d{1,3})(?:\(([1-9]\d{0,4})\)|\[([A-Z]{2,3})\.(\d{1,2})=([^\]|]{1,64})\])?(?:\.(\d{1,2}))?(?:\.(\d{1,2}))?"
)


def slice_of(element: str, entry: Any) -> str:
    """Return the name of an entry's slice: its `slice`, its url, its source, or else the first field that it names.

    Empty if it names none.
    """
    if isinstance(entry, dict):
        each = entry.get("each")
        source = next(iter(each), "") if isinstance(each, list) else each
        own = entry.get("url") if element == EXTENSION else source
        if named := str(entry.get("slice") or own or ""):
            return named
    return _first_field(entry)


def _first_field(entry: Any) -> str:
    """Return the first field in an entry, as `PID-15`."""
    if isinstance(entry, str):
        match = FIELD.search(entry)
        return f"{match[1]}-{match[2]}" if match else ""
    parts = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
    return next((found for part in parts if (found := _first_field(part))), "")
