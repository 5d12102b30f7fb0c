"""The places of a visit and their periods: a place that is left stays in the list as completed.

A message says one place where the patient is now (PV1-3) and perhaps one where they were before (PV1-6). A place
without the time of an arrival corrects the last one, and restores a place that was left by mistake.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from engine.fhir.json import digest
from engine.fhir.plan import ElementChange, LocationTrail
from engine.fhir.status_transitions import ACTIVE, COMPLETED, PERIOD, STATUS, Body, after

START: Final = "start"
END: Final = "end"
BEFORE: Final = " before"

Item = dict[str, Any]


def traced(
    body: Body,
    changes: Sequence[ElementChange],
    owned: Mapping[str, tuple[str, ...]],
    trail: LocationTrail,
    at: datetime | None,
    *,
    tried: bool = False,
) -> list[ElementChange]:
    """Return the changes of a stored visit, with the places that it left before and their periods.

    `owned`: what the source wrote last, by slice; the places before are a slice of their own. `at`: the time of the
    event. `tried`: the message was sent before, perhaps with an answer that was lost, so that `owned` may be older than
    what is stored.
    """
    stays = {change.slice: change.items[0] for change in changes if change.element == trail.element and change.items}
    if trail.here not in stays:
        return list(changes)
    stored = [item for item in body.get(trail.element) or () if isinstance(item, dict)]
    marked = [(digest(item), item) for item in stored]
    ours = (trail.here, trail.prior, trail.here + BEFORE)
    mine = {name: [item for mark, item in marked if mark in owned.get(name, ())] for name in ours}
    before = list(mine[trail.here + BEFORE])
    new = _timed(stays[trail.here], changes, trail, at)
    here = next(iter(mine[trail.here]), None) or _known(new, stored)
    since, gone = _start(new), False
    if here is not None and since and _start(here) and after(_start(here), since):
        new = here
    elif here is not None and _same(here, new) and not _returns(here, new):
        before += _left_already(here, new, stored, mine, trail) if tried and here not in mine[trail.here] else []
        new = _merged(here, new)
    elif since or _end(new):
        before += [one for one in mine[trail.prior] if one not in before]
        before += [] if here is None else _left(here, since or _end(new))
    else:
        again = next((one for one in reversed(before) if _same(one, new)), None)
        before = [one for one in before if one is not again]
        new = new if again is None else _merged(again, new)
        gone = again in mine[trail.prior] and all(change.slice != trail.prior for change in changes)
    items = {trail.here: new}
    if trail.prior in stays:
        items[trail.prior] = _prior(stays[trail.prior], [*before, *stored], since)
    changes = [_with(one, items) if one.element == trail.element and one.items else one for one in changes]
    if gone:
        changes.append(ElementChange(trail.element, trail.prior, (), many=True))
    if before or trail.here + BEFORE in owned:
        once = tuple(one for index, one in enumerate(before) if one not in before[:index] and one != new)
        changes.append(ElementChange(trail.element, trail.here + BEFORE, once, many=True))
    return changes


def begun(changes: Sequence[ElementChange], trail: LocationTrail, at: datetime | None) -> list[ElementChange]:
    """Return the changes of a new visit, with the start or the end of its place."""
    here = (one for one in changes if (one.element, one.slice) == (trail.element, trail.here) and one.items)
    items = {one.slice: _timed(one.items[0], changes, trail, at) for one in here}
    return [_with(change, items) if change.element == trail.element and change.items else change for change in changes]


def _timed(item: Item, changes: Sequence[ElementChange], trail: LocationTrail, at: datetime | None) -> Item:
    """Return the place of a message with the time of its arrival or of its end, as far as the event has them."""
    moment = at.isoformat(timespec="seconds") if at is not None else ""
    if item.get(STATUS) == ACTIVE:
        return _of(item, moment if trail.arrives else "", "")
    if item.get(STATUS) != COMPLETED:
        return item
    end = next((str(change.items[0]) for change in changes if change.element == f"{PERIOD}.{END}" and change.items), "")
    return _of(item, moment if trail.arrives else "", end or (moment if trail.leaves else ""))


def _known(new: Item, stored: Sequence[Item]) -> Item | None:
    """Return a place as another source wrote it, or this source in a write whose answer was lost; None if neither."""
    alike = [one for one in stored if _same(one, new) and one.get(STATUS) in {ACTIVE, new.get(STATUS)}]
    return next((one for one in alike if not _end(one) or _end(one) == _end(new)), None)


def _left(here: Item, until: str) -> list[Item]:
    """Return a place that is left as it stays in the list; nothing if it was only planned."""
    if here.get(STATUS) not in {ACTIVE, COMPLETED}:
        return []
    return [_of({**here, STATUS: COMPLETED}, _start(here), _end(here) or until)]


def _left_already(
    here: Item, new: Item, stored: Sequence[Item], mine: Mapping[str, list[Item]], trail: LocationTrail
) -> list[Item]:
    """Return the places that a visit left by this same message, in a write whose answer was lost."""
    moment = _start(new) or _end(new)
    if not moment or moment != (_start(here) or _end(here)):
        return []
    before = mine[trail.here + BEFORE]
    left = [one for one in stored if one.get(STATUS) == COMPLETED and _end(one) == moment and one is not here]
    return [one for one in (*mine[trail.prior], *left) if one not in before]


def _returns(here: Item, new: Item) -> bool:
    """True if a visit comes back to the place that it ended in."""
    return bool(_end(here) and _start(new)) and new.get(STATUS) == ACTIVE and not after(_end(here), _start(new))


def _merged(old: Item, new: Item) -> Item:
    """Return a repeated place: with the known start and the new end."""
    over = new.get(STATUS) == COMPLETED
    return _of(new, _start(old) or _start(new), (_end(new) or _end(old)) if over else "")


def _prior(item: Item, known: Sequence[Item], until: str) -> Item:
    """Return the prior place as any source wrote it: with its start, and with the arrival as its end."""
    found = [one for one in known if _same(one, item) and one.get(STATUS) == COMPLETED]
    if found:
        return max(found, key=_end)
    left = next((one for one in known if _same(one, item) and one.get(STATUS) == ACTIVE), None)
    return item if left is None else _of(item, _start(left), until)


def _with(change: ElementChange, items: dict[str, Item]) -> ElementChange:
    item = items.get(change.slice)
    return change if item is None else ElementChange(change.element, change.slice, (item,), many=True)


def _same(one: Item, other: Item) -> bool:
    apart = (STATUS, PERIOD)
    return {name: part for name, part in one.items() if name not in apart} == {
        name: part for name, part in other.items() if name not in apart
    }


def _of(item: Item, start: str, end: str) -> Item:
    period = {name: value for name, value in ((START, start), (END, end)) if value}
    rest = {name: value for name, value in item.items() if name != PERIOD}
    return {**rest, PERIOD: period} if period else rest


def _start(item: Item) -> str:
    return str((item.get(PERIOD) or {}).get(START) or "")


def _end(item: Item) -> str:
    return str((item.get(PERIOD) or {}).get(END) or "")
