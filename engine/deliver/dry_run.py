"""A dry run: what delivering a plan would do at the server now, as values; nothing of it was written."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from engine.deliver.verdict import Verdict

MOST_DIFFERENCES: Final = 500
# What the server gives by itself, and so says nothing of a change.
_OWN: Final = frozenset({"meta", "id", "resourceType"})

Body = dict[str, Any]


@dataclass(frozen=True, slots=True, repr=False)
class PlannedCall:
    """A write that would be sent; `path` is relative to the base URL, `changes` False says that it is a preview."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: Any
    changes: bool = True


@dataclass(frozen=True, slots=True, repr=False)
class ElementDifference:
    """One element of a resource before and after; None is nothing there. `path` is `name[0].family`."""

    resource: str
    path: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True, repr=False)
class DryRun:
    """What a delivery would do: its verdict, the writes in their order, and what would differ at the server.

    The verdict tells nothing that is to be remembered, as nothing took place. At most `MOST_DIFFERENCES` differences.
    What only the server decides when it is written to, such as a number that is taken, is not known.
    """

    verdict: Verdict
    calls: tuple[PlannedCall, ...] = ()
    differences: tuple[ElementDifference, ...] = ()


def unremembered(verdict: Verdict) -> Verdict:
    """Return a verdict without all that the journal would keep of a delivery."""
    return replace(verdict, attempts=(), known=(), owned=(), merges=(), inherited=(), applied=False)


def differences(resource: str, before: Body | None, after: Body | None) -> Iterator[ElementDifference]:
    """Yield what differs between two states of a resource, element by element; None where there is none."""
    old, new = before or {}, after or {}
    for name in dict.fromkeys((*old, *new)):
        if name not in _OWN:
            yield from _between(resource, name, old.get(name), new.get(name), whole=not (old and new))


def _between(resource: str, path: str, old: Any, new: Any, *, whole: bool = False) -> Iterator[ElementDifference]:
    if old == new:
        return
    if not whole and isinstance(old, dict) and isinstance(new, dict):
        for name in dict.fromkeys((*old, *new)):
            yield from _between(resource, f"{path}.{name}", old.get(name), new.get(name))
    elif not whole and isinstance(old, list) and isinstance(new, list):
        yield from _lists(resource, path, old, new)
    else:
        yield ElementDifference(resource, path, old, new)


def _lists(resource: str, path: str, old: list[Any], new: list[Any]) -> Iterator[ElementDifference]:
    """Compare lists by their items: equal ones wherever they stand first, the rest in their order."""
    come = list(enumerate(new))
    gone = []
    for at, item in enumerate(old):
        same = next((one for one in come if one[1] == item), None)
        if same is None:
            gone.append((at, item))
        else:
            come.remove(same)
    if not gone and not come:
        yield ElementDifference(resource, path, old, new)
    for (_, was), (at, now) in zip(gone, come, strict=False):
        yield from _between(resource, f"{path}[{at}]", was, now)
    for at, was in gone[len(come) :]:
        yield ElementDifference(resource, f"{path}[{at}]", was, None)
    for at, now in come[len(gone) :]:
        yield ElementDifference(resource, f"{path}[{at}]", None, now)
