"""What a channel in shadow would have done, summed up: how entries would end, what would differ."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from engine.journal.rehearsals import Shadowed

_PLACE: Final = re.compile(r"\[\d+\]")
_NAMES: Final = ("verdict", "reason")


class Kind(StrEnum):
    """What a difference is, in the order in which people read them."""

    END = "would end"
    CALL = "would call"
    ADDED = "element added"
    REMOVED = "element removed"
    CHANGED = "element changed"


class Told(NamedTuple):
    """One difference of one entry; `path` never holds a value."""

    kind: Kind
    path: str
    before: Any = None
    after: Any = None


@dataclass(slots=True)
class Sum:
    """One kind of difference: in how many entries, and the first of them as an example."""

    kind: Kind
    path: str
    example: str
    before: Any
    after: Any
    count: int = 0


@dataclass(slots=True)
class Summary:
    """Differences summed up, entry by entry; `differing` counts those that would write or not be delivered."""

    messages: int = 0
    differing: int = 0
    found: dict[tuple[Kind, str], Sum] = field(default_factory=dict)

    def add(self, entry: Shadowed) -> None:
        """Count what would have been done with one entry."""
        told = list(_told(entry.told))
        self.messages += 1
        self.differing += any(one.kind is not Kind.END for one in told) or entry.told.get("verdict") != "delivered"
        firsts: dict[tuple[Kind, str], Told] = {}
        for one in told:
            firsts.setdefault((one.kind, one.path), one)
        for key, one in firsts.items():
            total = self.found.setdefault(key, Sum(*key, f"entry {entry.seq}", one.before, one.after))
            total.count += 1

    def sums(self) -> list[Sum]:
        """Return what was found, by kind, the most frequent first."""
        order = list(Kind)
        return sorted(self.found.values(), key=lambda one: (order.index(one.kind), -one.count, one.path))


def summed(entries: Iterable[Shadowed]) -> Summary:
    """Sum entries up."""
    summary = Summary()
    for entry in entries:
        summary.add(entry)
    return summary


def _told(rehearsal: dict[str, Any]) -> Iterator[Told]:
    yield Told(Kind.END, " ".join(str(rehearsal.get(name, "")) for name in _NAMES).strip())
    for call in rehearsal.get("calls", ()):
        if call["changes"]:
            yield Told(Kind.CALL, f"{call['method']} {_without_id(call['path'])}")
    for one in rehearsal.get("differences", ()):
        kind = Kind.ADDED if one["before"] is None else Kind.REMOVED if one["after"] is None else Kind.CHANGED
        path = f"{one['resource'].partition('/')[0]}.{_PLACE.sub('', one['path'])}"
        yield Told(kind, path, one["before"], one["after"])


def _without_id(path: str) -> str:
    type_, _, rest = path.partition("/")
    return f"{type_}/{rest}" if rest.startswith("$") else type_
