"""One mapping file laid over the one that it extends: what it replaces, what it adds, and where that stands."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from engine.mapping.files.field import slice_of

Key = str | int
ADD: Final = "add"
EXTENDS: Final = "extends"
# What a file says that takes the place of one that ships, whole.
REPLACES: Final = "replaces"
# Sections whose entries hold maps of single lines in turn: what a segment makes, element by element.
LEVELS: Final = {"segments": 2}


def laid_over(
    below: dict[str, Any], above: dict[str, Any]
) -> tuple[dict[str, Any], dict[tuple[Key, ...], tuple[Key, ...]]]:
    """Lay one file over another: single events, elements and codes replace those of the same name.

    Entries of `add` join the lists of their elements; one of the same slice takes the place of the one below.
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
    """Return what is wrong with how a file stands to the shipped one of its name, and what would do; None for nothing.

    `own`: what that one is called. Without a word, what it says and this one does not would be lost unseen.
    """
    name = own[0]
    if REPLACES not in value:
        if EXTENDS in value or not ships:
            return None
        found = f"neither {EXTENDS} nor {REPLACES}: nothing of the file that ships under this name would hold"
        return found, f"write {EXTENDS}: {name} to keep what stands there alone, or {REPLACES}: {name} to give it up"
    if EXTENDS in value:
        return f"{REPLACES} beside {EXTENDS}", "leave one of the two out"
    if not ships:
        return f"found {value[REPLACES]!r}", "leave it out: no file ships under this name"
    return None if value[REPLACES] in own else (f"found {value[REPLACES]!r}", f"expected {name!r}")


def _over(below: dict[str, Any], above: dict[str, Any], levels: int) -> dict[str, Any]:
    """Lay one map over another; so many levels further down they are laid over one another, too, not replaced."""
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
