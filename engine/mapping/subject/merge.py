"""Merges: the identity of MRG that is merged into one of PID.

Paired by the same system, then the same type, else by position; the mapping's preferred pair is merged. A number on
both sides, but not in that pair, identifies neither and is left out of both. The order of a side's numbers only
decides between equal ones.
"""

from collections.abc import Sequence
from typing import NamedTuple

from engine.fhir.plan import Identity
from engine.hl7.finding import ErrorCode, Finding
from engine.mapping.language.identifier import MessageIdentifier


class IdentityPair(NamedTuple):
    """The pair to be merged, and the identities of each side that distinguish the two, the pair's own first."""

    source: MessageIdentifier
    target: MessageIdentifier
    sources: tuple[MessageIdentifier, ...]
    targets: tuple[MessageIdentifier, ...]


def pair(sources: Sequence[MessageIdentifier], targets: Sequence[MessageIdentifier]) -> IdentityPair | None:
    """Return the pair to be merged; None if a side is empty. Both sides may be the same identity."""
    left, right = _apart(sources, targets), _apart(targets, sources)
    pairs = _pairs(left, right)
    if not pairs:
        return None
    shared = {found.identity for found in left} & {found.identity for found in right}

    def rank(one: tuple[MessageIdentifier, MessageIdentifier]) -> tuple[int, bool, int, tuple[Identity, ...]]:
        on_both = sum(side.identity in shared for side in one)
        # The chosen pair decides which other numbers are left out, so it must not depend on the order of sending.
        return one[1].rank, _same_identity(*one), on_both, tuple(side.identity for side in one) if on_both else ()

    source, target = min(pairs, key=rank)
    return IdentityPair(source, target, _side(source, left, shared), _side(target, right, shared))


def judge(found: IdentityPair) -> Finding | None:
    """Return the finding that forbids a merge: one identity on both sides, or an authority unknown to the channel."""
    places = (f"{found.target.location}.1", f"{found.source.location}.1")
    if found.source.identity == found.target.identity:
        return Finding(ErrorCode.DUPLICATE_KEY, "self-merge", places, "surviving and merged identifier are the same")
    unnamed = tuple(f"{one.location}.4" for one in (found.target, found.source) if not one.system.configured)
    if unnamed:
        text = "a merge needs assigning authorities that the channel configures"
        return Finding(ErrorCode.UNKNOWN_KEY, "unknown-authority", unnamed, text)
    return None


def _side(
    chosen: MessageIdentifier, side: Sequence[MessageIdentifier], shared: set[Identity]
) -> tuple[MessageIdentifier, ...]:
    """Return the chosen number, then the others that identify its side alone.

    A number on both sides identifies neither, and is left out; but if the chosen one is on both sides itself, those
    of its kind (system and type) stay.
    """
    known = shared - {one.identity for one in side if chosen.identity in shared and _kind(one) == _kind(chosen)}
    others = (one for one in side if one.identity != chosen.identity and one.identity not in known)
    return (chosen, *others)


def _apart(side: Sequence[MessageIdentifier], other: Sequence[MessageIdentifier]) -> list[MessageIdentifier]:
    """Return the numbers of one side only; of a system and type all of them, if the other side lists them all."""
    listed = {one.identity for one in other}
    apart = {_kind(one) for one in side if one.identity not in listed}
    return [one for one in side if one.identity not in listed or _kind(one) not in apart]


def _pairs(
    sources: Sequence[MessageIdentifier], targets: Sequence[MessageIdentifier]
) -> list[tuple[MessageIdentifier, MessageIdentifier]]:
    """Return the pairs; by position only if no two different numbers match otherwise."""
    left, right = _preferred(sources, targets), _preferred(targets, sources)
    pairs: list[tuple[MessageIdentifier, MessageIdentifier]] = []
    for same in (_same_number, _same_kind, _same_identity, _same_system, _same_type):
        for target in tuple(right):
            source = next((one for one in left if same(one, target)), None)
            if source is not None:
                pairs.append((source, target))
                left.remove(source)
                right.remove(target)
    if all(_same_identity(*one) for one in pairs):
        count = min(len(left), len(right))
        pairs += zip(_as_sent(left[:count]), _as_sent(right[:count]), strict=True)
    return pairs


def _preferred(side: Sequence[MessageIdentifier], other: Sequence[MessageIdentifier]) -> list[MessageIdentifier]:
    listed = {one.identity for one in other}
    return sorted(
        _as_sent(side), key=lambda one: (one.rank, not one.system.configured, one.identity in listed, one.type_)
    )


def _as_sent(side: Sequence[MessageIdentifier]) -> list[MessageIdentifier]:
    return sorted(side, key=lambda one: (one.place, one.repetition))


def _kind(one: MessageIdentifier) -> tuple[str, str]:
    return (one.system.uri, one.type_)


def _same_number(one: MessageIdentifier, other: MessageIdentifier) -> bool:
    return one.identity == other.identity and one.type_ == other.type_


def _same_kind(one: MessageIdentifier, other: MessageIdentifier) -> bool:
    return _kind(one) == _kind(other)


def _same_identity(one: MessageIdentifier, other: MessageIdentifier) -> bool:
    return one.identity == other.identity


def _same_system(one: MessageIdentifier, other: MessageIdentifier) -> bool:
    return one.system.uri == other.system.uri


def _same_type(one: MessageIdentifier, other: MessageIdentifier) -> bool:
    return bool(one.type_) and one.type_ == other.type_
