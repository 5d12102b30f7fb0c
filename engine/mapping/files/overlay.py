"""One mapping file laid over the one that it extends: fields, replacements and additions, with their places."""

import re
from collections.abc import Mapping, Sequence
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


Key = str | int
ADD: Final = "add"
EXTENDS: Final = "extends"
# The key of a file that replaces a shipped one whole.
REPLACES: Final = "replaces"
# Sections with nested maps of single lines: the elements of a segment.
LEVELS: Final = {"segments": 2}


def laid_over(
    below: dict[str, Any], above: dict[str, Any]
) -> tuple[dict[str, Any], dict[tuple[Key, ...], tuple[Key, ...]]]:
    """Lay one file over another: single events, elements and codes replace those of the same name.

    Entries of `add` join the lists of their elements; one of the same slice replaces the one below.
    """
    merged = {**below, **above}
    added = merged.pop(ADD, None)
    for key, part in above.items():
        under = below.get(key)
        if isinstance(part, dict) and isinstance(under, dict):
            merged[key] = _over(under, part, LEVELS.get(key, 0))
    moved: dict[tuple[Key, ...], tuple[Key, ...]] = {}
    elements = merged.get("elements")
    if isinstance(added, dict) and isinstance(elements, dict):
        merged["elements"] = elements = dict(elements)
        for name, entries in added.items():
            elements[name] = _joined(name, elements.get(name), entries, moved)
            moved["elements", name] = (ADD, name)
    elif added is not None:
        merged[ADD] = added
    return merged, moved


def unsaid(value: Mapping[str, Any], own: Sequence[str], *, ships: bool) -> tuple[str, str] | None:
    """Return the fault of a file that shadows a shipped one without `extends`, and what is expected; None for none.

    `own`: the names of the shipped one. Otherwise the entries of the shipped one would be lost silently.
    """
    name = own[0]
    if REPLACES not in value:
        if EXTENDS in value or not ships:
            return None
        found = f"neither {EXTENDS} nor {REPLACES}: the shipped file of this name would be lost"
        return found, f"write {EXTENDS}: {name} to keep its entries, or {REPLACES}: {name} to drop them"
    if EXTENDS in value:
        return f"{REPLACES} beside {EXTENDS}", "leave one of the two out"
    if not ships:
        return f"found {value[REPLACES]!r}", "leave it out: no file ships under this name"
    return None if value[REPLACES] in own else (f"found {value[REPLACES]!r}", f"expected {name!r}")


def _over(below: dict[str, Any], above: dict[str, Any], levels: int) -> dict[str, Any]:
    """Lay one map over another; nested maps are merged down to `levels`, and replaced below."""
    return below | {
        key: _over(below[key], part, levels - 1)
        if levels and isinstance(part, dict) and isinstance(below.get(key), dict)
        else part
        for key, part in above.items()
    }


def _joined(name: str, below: Any, entries: Any, moved: dict[tuple[Key, ...], tuple[Key, ...]]) -> list[Any]:
    items = list(below) if isinstance(below, list) else [] if below is None else [below]
    listed = isinstance(entries, list)
    for number, entry in enumerate(entries if listed else [entries]):
        own = slice_of(name, entry)
        at = next((index for index, item in enumerate(items) if own and slice_of(name, item) == own), len(items))
        items[at : at + 1] = [entry]
        moved["elements", name, at] = (ADD, name, number) if listed else (ADD, name)
    return items
