"""Status transitions: the status that an event leads to from the stored one, and the history that lists keep."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from engine.fhir.json import digest
from engine.fhir.plan import ElementChange, StatusMove

ACTIVE: Final = "active"
COMPLETED: Final = "completed"
STATUS: Final = "status"
PERIOD: Final = "period"
REUSED: Final = "visit-reused"

Body = dict[str, Any]
Slices = dict[str, tuple[str, ...]]


class Moved(NamedTuple):
    """A status after an event: whether the resource begins anew, and a note (a code), empty for none.

    `idle`: the event moves nothing, and the resource is left as it is.
    """

    status: str
    reopened: bool = False
    note: str = ""
    idle: bool = False


def moved(body: Body, move: StatusMove, at: datetime | None) -> Moved:
    """Return the status to which an event at a time moves a stored resource."""
    status = str(body.get(move.element) or "")
    passed_over = Moved(status, note=move.otherwise, idle=bool(move.otherwise))
    if not move.to or status == move.to:
        return passed_over if move.to and move.only and status not in move.only else Moved(status)
    if status in move.reopens:
        return Moved(move.to, reopened=True, note=REUSED) if _begins_anew(body, move, at) else Moved(status)
    if status in move.never or (move.only and status not in move.only):
        return passed_over
    return Moved(move.to)


def settled(changes: Iterable[ElementChange], move: StatusMove, status: str) -> tuple[ElementChange, ...]:
    """Return changes for a resource of a status: if it has ended, active items become completed."""
    if status not in move.ended:
        return tuple(changes)
    return tuple(
        ElementChange(change.element, change.slice, tuple(_ended(item) for item in change.items), many=True)
        if change.many and any(_active(item) for item in change.items)
        else change
        for change in changes
    )


def settle(body: Body, owned: Slices) -> bool:
    """Complete in place what is still active in the lists of a resource that has ended; True if anything was."""
    marks: dict[str, str] = {}
    for name, items in body.items():
        if isinstance(items, list) and any(_active(item) for item in items):
            ended = [_ended(item) for item in items]
            body[name] = [item for at, item in enumerate(ended) if item not in ended[:at]]
            marks |= {digest(item): digest(_ended(item)) for item in items if _active(item)}
    for name, held in owned.items():
        if not marks.keys().isdisjoint(held):
            owned[name] = tuple(marks.get(mark, mark) for mark in held)
    return bool(marks)


def restate(body: Body, changes: Sequence[ElementChange]) -> None:
    """Remove in place the items of any source that differ only in status from an item of the changes.

    A place that a message reports as left replaces another system's active one; an earlier, completed stay remains.
    """
    for change in changes:
        items = [item for item in change.items if isinstance(item, dict) and STATUS in item]
        if not (change.many and items):
            continue
        now = [item for one in changes if one.element == change.element for item in one.items]
        things = [_thing(item) for item in items]
        body[change.element] = [
            item for item in body.get(change.element, ()) if item in now or _is_past(item) or _thing(item) not in things
        ]


def remember_former(body: Body, before: Body, move: StatusMove, at: datetime | None) -> None:
    """Add an element's former value to its history, ended at the event's time; nothing for an event that came late."""
    if at is None:
        return
    for element, history in move.histories:
        former = before.get(element)
        if former is None or former == body.get(element) or _same_code(former, body.get(element)):
            continue
        earlier = [item for item in before.get(history) or () if isinstance(item, dict)]
        since = str((earlier[-1].get("period") or {}).get("end") or "") if earlier else ""
        if since and not after(at, since):
            continue
        since = since or str((before.get("period") or {}).get("start") or "")
        period = {"start": since} if since and after(at, since) else {}
        item = {element: former, "period": {**period, "end": at.isoformat(timespec="seconds")}}
        body[history] = [*earlier, item]


def _begins_anew(body: Body, move: StatusMove, at: datetime | None) -> bool:
    """True if an event is later than every known end of the resource."""
    ends = [str((body.get("period") or {}).get("end") or "")]
    for _, history in move.histories:
        former = body.get(history) or ()
        ends += [str((item.get("period") or {}).get("end") or "") for item in former if isinstance(item, dict)]
    return at is None or all(after(at, end) for end in ends if end)


def after(at: datetime | str, text: str) -> bool:
    """True if a moment is after a FHIR dateTime; one without a time of day ends with its day."""
    try:
        at = datetime.fromisoformat(at) if isinstance(at, str) else at
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        other = datetime.fromisoformat(text)
    except ValueError:
        return True
    if len(text) <= len("2026-03-01"):
        return at.date() > other.date()
    return at > (other if other.tzinfo else other.replace(tzinfo=UTC))


def _same_code(one: Any, other: Any) -> bool:
    return isinstance(one, dict) and isinstance(other, dict) and one.get("code") == other.get("code")


def _active(item: Any) -> bool:
    return isinstance(item, dict) and item.get("status") == ACTIVE


def _thing(item: Any) -> Any:
    """Return an item without its status and period."""
    apart = (STATUS, PERIOD)
    return {name: value for name, value in item.items() if name not in apart} if isinstance(item, dict) else item


def _is_past(item: Any) -> bool:
    """True if an item's time is over."""
    return isinstance(item, dict) and item.get(STATUS) == COMPLETED and "end" in (item.get(PERIOD) or {})


def _ended(item: Any) -> Any:
    return {**item, "status": COMPLETED} if _active(item) else item
