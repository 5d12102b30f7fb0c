"""Merges: which identity of MRG goes into which of PID.

Paired by the same system, then the same type, else by position; of the pairs the one that the mapping prefers is
merged. A number that stands on both sides, but not in that pair, tells nothing and is left out of both.
"""

from collections.abc import Sequence
from typing import NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.mapping.identifier import Found


class Pair(NamedTuple):
    """The pair to be merged, and all identities of either side that tell the two apart, the pair's own first."""

    source: Found
    target: Found
    sources: tuple[Found, ...]
    targets: tuple[Found, ...]


def pair(sources: Sequence[Found], targets: Sequence[Found]) -> Pair | None:
    """Return what is to be merged; None where a side is empty. The pair may be of one and the same identity."""
    pairs = _pairs(sources, targets)
    if not pairs:
        return None
    source, target = min(pairs, key=lambda one: (one[1].rank, one[0].identity == one[1].identity))
    shared = {found.identity for found in sources} & {found.identity for found in targets}
    return Pair(source, target, _side(source, sources, shared), _side(target, targets, shared))


def judge(found: Pair) -> Finding | None:
    """Return what forbids a merge: one identity on both sides, or an authority that the channel does not name."""
    places = (f"{found.target.location}.1", f"{found.source.location}.1")
    if found.source.identity == found.target.identity:
        return Finding(ErrorCode.DUPLICATE_KEY, "self-merge", places, "surviving and merged identifier are the same")
    unnamed = tuple(f"{one.location}.4" for one in (found.target, found.source) if not one.system.configured)
    if unnamed:
        text = "a merge needs assigning authorities that the channel names"
        return Finding(ErrorCode.UNKNOWN_KEY, "unknown-authority", unnamed, text)
    return None


def _side(chosen: Found, side: Sequence[Found], shared: set[Identity]) -> tuple[Found, ...]:
    others = (one for one in side if one.identity != chosen.identity and one.identity not in shared)
    return (chosen, *others)


def _pairs(sources: Sequence[Found], targets: Sequence[Found]) -> list[tuple[Found, Found]]:
    left, right = _as_sent(sources), _as_sent(targets)
    position = {found: number for side in (left, right) for number, found in enumerate(side)}
    pairs: list[tuple[Found, Found]] = []
    for same in (_same_system_and_type, _same_system, _same_type, lambda one, other: position[one] == position[other]):
        for target in tuple(right):
            source = next((one for one in left if same(one, target)), None)
            if source is not None:
                pairs.append((source, target))
                left.remove(source)
                right.remove(target)
    return pairs


def _as_sent(side: Sequence[Found]) -> list[Found]:
    return sorted(side, key=lambda one: (one.place, one.repetition))


def _same_system_and_type(one: Found, other: Found) -> bool:
    return one.system.uri == other.system.uri and one.type_ == other.type_


def _same_system(one: Found, other: Found) -> bool:
    return one.system.uri == other.system.uri


def _same_type(one: Found, other: Found) -> bool:
    return bool(one.type_) and one.type_ == other.type_
