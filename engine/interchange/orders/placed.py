"""The present tests of an order, contained or kept separately, and what they refer to."""

from collections.abc import Iterator
from typing import NamedTuple

from engine.fhir.json import JsonObject
from engine.interchange.orders.order import TEST, actions_of
from engine.interchange.store.references import local_target
from engine.interchange.store.transaction import Transaction


class PlacedTest(NamedTuple):
    """A test: its action, where it is itself, and what it is; `id` is '' while the order contains it.

    `holder` is the resource in which its references of the form `#id` lead somewhere. `test` is None where an action
    names nothing that could be one.
    """

    action: str
    path: str
    id: str
    test: JsonObject | None
    holder: JsonObject


def placed_tests(transaction: Transaction, order: JsonObject) -> Iterator[PlacedTest]:
    """Yield the tests of an order in the order of its actions, each once; actions without a resource have none."""
    seen: set[str] = set()
    for action, _, reference in actions_of(order):
        target = reference if reference.startswith("#") else local_target(reference)
        if not target or target in seen:
            continue
        seen.add(target)
        place = f"{action}.resource"
        index, part = contained_at(order, target)
        if part is not None:
            test = part if part.get("resourceType") == TEST else None
            yield PlacedTest(place, f"{_root(action)}.contained[{index}]", "", test, order)
            continue
        type_name, _, test_id = target.partition("/")
        found = resolved(transaction, order, target) if type_name == TEST else None
        yield PlacedTest(place, place, test_id, found, found or {})


def resolved(transaction: Transaction, holder: JsonObject, reference: str) -> JsonObject | None:
    """Return what a reference within a resource names, contained or kept; None where that is not there."""
    if reference.startswith("#"):
        return contained_at(holder, reference)[1]
    type_name, _, resource_id = local_target(reference).partition("/")
    stored = transaction.get(type_name, resource_id)
    return stored.resource() if stored is not None and not stored.deleted else None


def contained_at(holder: JsonObject, reference: str) -> tuple[int, JsonObject | None]:
    """Return the place and the resource of `#id` within a resource; None where it contains none."""
    for index, part in enumerate(holder.get("contained", ())):
        if reference == f"#{part.get('id')}":
            return index, part
    return 0, None


def _root(action: str) -> str:
    return action.partition(".")[0]
