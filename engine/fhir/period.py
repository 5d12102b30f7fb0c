"""Periods: none is written that ends before it begins, even if its ends come from different messages."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from engine.fhir.json import digest
from engine.fhir.plan import ElementChange
from engine.fhir.status_transitions import PERIOD, Body, Slices

REVERSED: Final = "period-reversed"
DATE: Final = len("2026-03-01")
PARTS: Final = ("start", "end")
ENDS: Final = (".start", ".end")


def is_reversed(period: Any) -> bool:
    """True if a period ends before it begins, by the coarser of its two precisions."""
    start, end = (str(period.get(part) or "") for part in PARTS) if isinstance(period, dict) else ("", "")
    if not (start and end):
        return False
    width = min(len(start), len(end), DATE)
    if len(start) <= DATE or len(end) <= DATE:
        return start[:width] > end[:width]
    try:
        return datetime.fromisoformat(start) > datetime.fromisoformat(end)
    except (ValueError, TypeError):
        return False


def without_reversed(changes: Iterable[ElementChange]) -> tuple[tuple[ElementChange, ...], tuple[str, ...]]:
    """Return changes without the reversed periods of one message, and the elements that had them."""
    changes = tuple(changes)
    ends = [change for change in changes if change.element.endswith(ENDS)]
    if len(ends) < len(ENDS):
        return changes, ()
    periods: dict[str, dict[str, Any]] = {}
    for one in ends:
        root, _, part = one.element.partition(".")
        if one.items:
            periods.setdefault(root, {})[part] = one.items[0]
    roots = tuple(root for root, period in periods.items() if is_reversed(period))
    names = {f"{root}.{part}" for root in roots for part in PARTS}
    return (tuple(change for change in changes if change.element not in names) if roots else changes), roots


def keep_forward(body: Body, before: Body, owned: Slices, mine: Mapping[str, tuple[str, ...]]) -> bool:
    """Restore reversed periods to what they were, and drop them from parts of lists; True if there were any.

    `owned` is what the source owns of the body, `mine` what it owned before.
    """
    changed = False
    if is_reversed(body.get(PERIOD)) and body[PERIOD] != before.get(PERIOD):
        changed = True
        body.pop(PERIOD)
        body |= {PERIOD: before[PERIOD]} if PERIOD in before else {}
        for part in PARTS:
            owned.pop(f"{PERIOD}.{part}", None)
        owned |= {name: mine[name] for part in PARTS if (name := f"{PERIOD}.{part}") in mine}
    marks: dict[str, str] = {}
    for name, items in body.items():
        if isinstance(items, list) and any(_turned(item, before.get(name)) for item in items):
            plain = [_plain(item) if _turned(item, before.get(name)) else item for item in items]
            marks |= {digest(item): digest(bare) for item, bare in zip(items, plain, strict=True) if item is not bare}
            body[name] = plain
    for name, held in owned.items():
        if not marks.keys().isdisjoint(held):
            owned[name] = tuple(marks.get(mark, mark) for mark in held)
    return changed or bool(marks)


def _turned(item: Any, before: Any) -> bool:
    return isinstance(item, dict) and PERIOD in item and is_reversed(item[PERIOD]) and item not in (before or ())


def _plain(item: Body) -> Body:
    return {name: value for name, value in item.items() if name != PERIOD}
