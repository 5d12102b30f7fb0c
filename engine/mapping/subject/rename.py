"""Changes of identifier: the number of MRG that one of PID replaces.

Paired as in a merge, by system, then type, then position; numbers on both sides stay, and so do numbers without a
counterpart. Numbers that are not an identity (an alternate id, a licence) change in the same way.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from engine.fhir.plan import Identity

Numbers = tuple[Any, ...]


class NumberChange(NamedTuple):
    """Retired numbers and their replacements, pair by pair, as FHIR Identifiers."""

    retired: Numbers
    issued: Numbers


def change(listed: Numbers, current: Numbers) -> NumberChange:
    """The change from MRG (`listed`) to PID (`current`); if PID still lists every old number, all are retired."""
    here, there = {key_of(item) for item in current}, {key_of(item) for item in listed}
    old = [item for item in listed if key_of(item) not in here]
    new = [item for item in current if key_of(item) not in there]
    tests = (_same_system_and_type, _same_system, _same_type, _any)
    pairs = _pairs(old, new, tests) if old else _pairs(list(listed), new, tests[:1])
    return NumberChange(tuple(one for one, _ in pairs), tuple(other for _, other in pairs))


def ended(item: Any, moment: str) -> Any:
    """Return a number retired at a moment (a FHIR dateTime; empty: unknown)."""
    old = {**item, "use": "old"}
    return {**old, "period": {**item.get("period", {}), "end": moment}} if moment else old


def key_of(item: Any) -> Identity:
    """Return the system and value of a FHIR Identifier."""
    return Identity(item.get("system", ""), item["value"])


def _pairs(old: list[Any], new: list[Any], tests: Sequence[Callable[[Any, Any], bool]]) -> list[tuple[Any, Any]]:
    pairs: list[tuple[Any, Any]] = []
    for alike in tests:
        for other in tuple(new):
            one = next((item for item in old if alike(item, other)), None)
            if one is not None:
                pairs.append((one, other))
                old.remove(one)
                new.remove(other)
    return pairs


def _same_system_and_type(one: Any, other: Any) -> bool:
    return _same_system(one, other) and one.get("type") == other.get("type")


def _same_system(one: Any, other: Any) -> bool:
    return bool(one.get("system") == other.get("system"))


def _same_type(one: Any, other: Any) -> bool:
    return "type" in one and one["type"] == other.get("type")


def _any(_one: Any, _other: Any) -> bool:
    return True
