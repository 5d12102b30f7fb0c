"""Differences between two mappings' outcomes of the same messages: grouped, with an example of each."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from engine.hl7.message import Message
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping

LISTS: Final = ("slices", "deletes")
BODIES: Final = ("patient", "resource")


class DifferenceKind(StrEnum):
    """The kind of a change, in the order of the report."""

    RULE = "event rule changed"
    ACTION = "action changed"
    ERROR = "refusal changed"
    STEP = "interactions changed"
    ADDED = "element added"
    REMOVED = "element removed"
    CHANGED = "element changed"
    ORDER = "order changed"
    PLAN = "plan changed"
    WARNING = "warning changed"


class MappingChange(NamedTuple):
    """One difference of one message; `path` never holds a value; None: absent."""

    kind: StrEnum
    path: str
    before: Any = None
    after: Any = None


@dataclass(slots=True)
class DifferenceGroup:
    """All differences of one kind at one path, by the values of the first of them."""

    kind: StrEnum
    path: str
    example: str
    before: Any
    after: Any
    count: int = 0


@dataclass(slots=True)
class DifferenceGrouping:
    """Gathers differences; `differing` counts the messages with relevant ones."""

    messages: int = 0
    differing: int = 0
    _found: dict[tuple[StrEnum, str], DifferenceGroup] = field(default_factory=dict)

    def add(self, name: str, changes: Iterable[MappingChange], *, differing: bool) -> None:
        """Count one message, once in each of its groups; `name` is its name as an example."""
        self.messages += 1
        self.differing += differing
        firsts: dict[tuple[StrEnum, str], MappingChange] = {}
        for one in changes:
            firsts.setdefault((one.kind, one.path), one)
        for key, one in firsts.items():
            group = self._found.setdefault(key, DifferenceGroup(*key, name, one.before, one.after))
            group.count += 1

    def groups(self) -> list[DifferenceGroup]:
        """Return the groups in the order of their kinds, the most frequent first."""
        return sorted(self._found.values(), key=lambda group: (_rank(group.kind), -group.count, group.path))


class Comparison:
    """Compares two mappings, message by message; differences are in `found`."""

    def __init__(self, old: Mapping, new: Mapping) -> None:
        self._old = old
        self._new = new
        self.found = DifferenceGrouping()

    def add(self, name: str, message: Message) -> None:
        """Compare the outcomes of one message; `name` is its name as an example."""
        differing = list(changes(outcome(self._old, message), outcome(self._new, message), message.trigger))
        self.found.add(name, differing, differing=bool(differing))


def changes(before: dict[str, Any], after: dict[str, Any], event: str) -> Iterator[MappingChange]:
    """Yield the differences of two outcomes of one message; paths are elements without indices, or the event."""
    for kind, key in (
        (DifferenceKind.RULE, "rule"),
        (DifferenceKind.ACTION, "action"),
        (DifferenceKind.ERROR, "error"),
    ):
        if before.get(key) != after.get(key):
            yield MappingChange(kind, event, before.get(key), after.get(key))
    for key in ("warnings", "findings", "flags"):
        yield from _warnings(before.get(key) or [], after.get(key) or [])
    olds, news = _steps(before), _steps(after)
    for name in dict.fromkeys((*olds, *news)):
        old, new = olds.get(name), news.get(name)
        if old is None or new is None:
            yield MappingChange(
                DifferenceKind.STEP, name.partition(" #")[0], "asked" if old else None, "asked" if new else None
            )
        else:
            elements = list(_bodies(old, new))
            yield from elements
            yield from _plans(
                name.partition(" #")[0], old, new, {element.path.split(".")[1].lstrip("_") for element in elements}
            )


def _steps(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the interactions by kind and type; the second of a kind is `upsert Patient #2`."""
    steps: dict[str, dict[str, Any]] = {}
    seen: Counter[str] = Counter()
    for interaction in made.get("interactions", ()):
        name = f"{next(iter(interaction))} {_body(interaction).get('resourceType', '')}".strip()
        seen[name] += 1
        steps[name if seen[name] == 1 else f"{name} #{seen[name]}"] = interaction
    return steps


def _body(one: dict[str, Any]) -> dict[str, Any]:
    return next((one[key] for key in BODIES if key in one), {})


def _bodies(old: dict[str, Any], new: dict[str, Any]) -> Iterator[MappingChange]:
    type_ = str(_body(new).get("resourceType", ""))
    yield from _elements(_leaves(_body(old), type_), _leaves(_body(new), type_))


def _elements(old: dict[str, list[Any]], new: dict[str, list[Any]]) -> Iterator[MappingChange]:
    for path in dict.fromkeys((*old, *new)):
        was, now = old.get(path, []), new.get(path, [])
        gone, come = list((_bag(was) - _bag(now)).elements()), list((_bag(now) - _bag(was)).elements())
        if gone and come:
            yield MappingChange(DifferenceKind.CHANGED, path, gone[0], come[0])
        elif come:
            yield MappingChange(DifferenceKind.ADDED, path, None, come[0])
        elif gone:
            yield MappingChange(DifferenceKind.REMOVED, path, gone[0], None)
        elif was != now:
            yield MappingChange(DifferenceKind.ORDER, path, was[0], now[0])


def _plans(name: str, old: dict[str, Any], new: dict[str, Any], known: set[str]) -> Iterator[MappingChange]:
    """Yield the differences outside of the resource: slices, deletions, status moves, handling of unknown resources.

    Slices and deletions of `known` elements are left out.
    """
    for one in (old, new):
        for key in LISTS:
            one[key] = [text for text in one.get(key) or () if text.split()[0].lstrip("_").split(".")[0] not in known]
    parts = [{key: value for key, value in one.items() if key not in BODIES} for one in (old, new)]
    was, now = (_leaves(part, name) for part in parts)
    for path in dict.fromkeys((*was, *now)):
        if was.get(path) != now.get(path):
            gone, come = (list((_bag(a) - _bag(b)).elements()) for a, b in _both(was.get(path, []), now.get(path, [])))
            yield MappingChange(DifferenceKind.PLAN, path, gone[0] if gone else None, come[0] if come else None)


def _both(one: list[Any], other: list[Any]) -> tuple[tuple[list[Any], list[Any]], tuple[list[Any], list[Any]]]:
    return (one, other), (other, one)


def _warnings(old: list[str], new: list[str]) -> Iterator[MappingChange]:
    for text in dict.fromkeys((*old, *new)):
        if (text in old) != (text in new):
            yield MappingChange(
                DifferenceKind.WARNING, text, text if text in old else None, text if text in new else None
            )


def _bag(values: list[Any]) -> Counter[Any]:
    return Counter(values)


def _leaves(value: Any, path: str) -> dict[str, list[Any]]:
    leaves: dict[str, list[Any]] = {}

    def walk(part: Any, at: str) -> None:
        if isinstance(part, dict):
            for name, inner in part.items():
                walk(inner, f"{at}.{name}")
        elif isinstance(part, list):
            for inner in part:
                walk(inner, at)
        else:
            leaves.setdefault(at, []).append(part)

    walk({name: part for name, part in value.items() if name != "resourceType"}, path)
    return leaves


def _rank(kind: StrEnum) -> int:
    kinds: type[StrEnum] = type(kind)
    return list(kinds).index(kind)
