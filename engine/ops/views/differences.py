"""What a channel in shadow would have done, summed up: how entries would end, what would differ."""

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any, Final

from engine.journal.read.dry_runs import Shadowed
from engine.mapping.authoring.difference import DifferenceGrouping, MappingChange

_PLACE: Final = re.compile(r"\[\d+\]")
_NAMES: Final = ("verdict", "reason")


class Kind(StrEnum):
    """What a difference is, in the order in which people read them."""

    END = "would end"
    CALL = "would call"
    ADDED = "element added"
    REMOVED = "element removed"
    CHANGED = "element changed"


def summed(entries: Iterable[Shadowed]) -> DifferenceGrouping:
    """Sum entries up; those differ that would write or not be delivered."""
    found = DifferenceGrouping()
    for entry in entries:
        changes = list(_changes(entry.dry_run))
        differing = any(one.kind is not Kind.END for one in changes) or entry.dry_run.get("verdict") != "delivered"
        found.add(f"entry {entry.seq}", changes, differing=differing)
    return found


def _changes(dry_run: dict[str, Any]) -> Iterator[MappingChange]:
    yield MappingChange(Kind.END, " ".join(str(dry_run.get(name, "")) for name in _NAMES).strip())
    for call in dry_run.get("calls", ()):
        if call["changes"]:
            yield MappingChange(Kind.CALL, f"{call['method']} {_without_id(call['path'])}")
    for one in dry_run.get("differences", ()):
        kind = Kind.ADDED if one["before"] is None else Kind.REMOVED if one["after"] is None else Kind.CHANGED
        path = f"{one['resource'].partition('/')[0]}.{_PLACE.sub('', one['path'])}"
        yield MappingChange(kind, path, one["before"], one["after"])


def _without_id(path: str) -> str:
    type_, _, rest = path.partition("/")
    return f"{type_}/{rest}" if rest.startswith("$") else type_
