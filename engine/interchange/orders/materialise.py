"""Tests come out of an order: each contained one becomes a resource by itself, with what it refers to."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.kernel.exact import write_json
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.orders.order import NAME, TEST, actions_of
from engine.interchange.store.references import references_in

NESTED: Final = (dict, list)
# What the tests of an order may take along, all together.
MOST_BYTES: Final = 2 * 1024 * 1024


class Apart(NamedTuple):
    """An order whose tests are resources by themselves, and those that came out of it, by their new ids."""

    order: JsonObject
    tests: dict[str, JsonObject]


def contained_tests(order: JsonObject) -> tuple[str, ...]:
    """Return the ids of the contained tests that an order's actions name, each once."""
    tests = {part["id"] for part in order.get("contained", ()) if part.get("resourceType") == TEST and "id" in part}
    named = (one.reference.removeprefix("#") for one in actions_of(order) if one.reference.startswith("#"))
    return tuple(dict.fromkeys(one for one in named if one in tests))


def taken_apart(order: JsonObject, order_id: str, ids: Mapping[str, str]) -> Apart:
    """Return an order without its contained tests, and these; `ids` are theirs as resources, by those they have there.

    What a test refers to comes along; what nothing refers to any more leaves the order. RefusedError (422) where the
    copies of what many tests refer to would be too large.
    """
    if not ids:
        return Apart(order, {})
    parts = {f"#{part.get('id')}": part for part in order["contained"]}
    names = {f"#{within}": f"{TEST}/{test_id}" for within, test_id in ids.items()}
    # Within a test of its own `#` no longer means the order.
    outside = {**names, "#": f"{NAME}/{order_id}"}
    shared = {name: part for name, part in parts.items() if name not in names}
    along = {within: _reached(shared, references_in(parts[f"#{within}"])) for within in ids}
    _check_size(shared, along.values())
    tests = {test_id: _test(parts, within, along[within], outside) for within, test_id in ids.items()}
    rest = _renamed({name: value for name, value in order.items() if name != "contained"}, names)
    others = {name: _renamed(part, names) for name, part in shared.items()}
    inverse = {name for name, part in others.items() if "#" in references_in(part)}
    left = _reached(others, references_in(rest) | inverse)
    if left:
        rest["contained"] = [others[name] for name in left]
    return Apart(rest, tests)


def _test(parts: Mapping[str, JsonObject], within: str, along: list[str], names: Mapping[str, str]) -> JsonObject:
    own = {key: value for key, value in parts[f"#{within}"].items() if key != "id"}
    test: JsonObject = _renamed(own, names)
    return {**test, "contained": [_renamed(parts[other], names) for other in along]} if along else test


def _check_size(parts: Mapping[str, JsonObject], along: Iterable[list[str]]) -> None:
    times = Counter(name for names in along for name in names)
    if sum(count * len(write_json(parts[name])) for name, count in times.items()) > MOST_BYTES:
        text = "The tests refer to too much that is contained: keep it on the service, and refer to it there."
        raise refuse(Category.RULE, text, location=f"{NAME}.contained")


def _reached(parts: Mapping[str, JsonObject], named: Iterable[str]) -> list[str]:
    """Return the names of the contained resources that are named, directly or by one another, in their order."""
    reached: set[str] = set()
    waiting = [name for name in named if name in parts]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [other for other in references_in(parts[name]) if other in parts]
    return [name for name in parts if name in reached]


def _renamed(part: Any, names: Mapping[str, str]) -> Any:
    """Return a part of a resource in which references have other names."""
    if isinstance(part, list):
        return [_renamed(one, names) if isinstance(one, NESTED) else one for one in part]
    return {
        key: names.get(value, value)
        if key == "reference" and isinstance(value, str)
        else _renamed(value, names)
        if isinstance(value, NESTED)
        else value
        for key, value in part.items()
    }
