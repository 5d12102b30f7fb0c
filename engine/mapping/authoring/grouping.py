"""Differences grouped by what they are and where: in how many messages each, and the first of them as an example."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class Change(NamedTuple):
    """One difference of one message; `path` never holds a value; None is nothing there."""

    kind: StrEnum
    path: str
    before: Any = None
    after: Any = None


@dataclass(slots=True)
class Group:
    """All differences of one kind at one path, by the values of the first of them."""

    kind: StrEnum
    path: str
    example: str
    before: Any
    after: Any
    count: int = 0


@dataclass(slots=True)
class Grouping:
    """Differences, message by message; `differing` counts the messages for which they matter."""

    messages: int = 0
    differing: int = 0
    _found: dict[tuple[StrEnum, str], Group] = field(default_factory=dict)

    def add(self, name: str, changes: Iterable[Change], *, differing: bool) -> None:
        """Count one message, once in each of its groups; `name` is what an example is called."""
        self.messages += 1
        self.differing += differing
        firsts: dict[tuple[StrEnum, str], Change] = {}
        for one in changes:
            firsts.setdefault((one.kind, one.path), one)
        for key, one in firsts.items():
            group = self._found.setdefault(key, Group(*key, name, one.before, one.after))
            group.count += 1

    def groups(self) -> list[Group]:
        """Return the groups in the order of their kinds, the most frequent first."""
        return sorted(self._found.values(), key=lambda group: (_rank(group.kind), -group.count, group.path))


def _rank(kind: StrEnum) -> int:
    kinds: type[StrEnum] = type(kind)
    return list(kinds).index(kind)
