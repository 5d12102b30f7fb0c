"""The parts of a test that its order owns: its numbers, and while the order is open all that the laboratory gets."""

from typing import Final

from engine.fhir.json import JsonObject
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.core.service import Service
from engine.interchange.kernel.outcome import Category, Issue, RefusedError
from engine.interchange.orders.order import NAME, OPEN, TEST, OrderStatus, find_order, status_of, tests_of
from engine.interchange.store.transaction import StoredVersion, Transaction

PLACER_TYPE: Final = {
    "coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "PLAC", "display": "Placer"}]
}
# The order determines OF_ORDER; once an order may not change any more, only FREE elements of its tests may.
OF_ORDER: Final = frozenset({"status", "subject", "code"})
FREE: Final = frozenset({"id", "meta", "text", "note", "extension", "identifier", "relevantHistory"})


def order_number_system(sis: str) -> str:
    """Return the system of order numbers: `requisition` of a test, `groupIdentifier` of an order."""
    return f"{sis}/order-number"


def placer_system(sis: str) -> str:
    """Return the system of placer order numbers, one a test."""
    return f"{sis}/placer-order-number"


def order_id_of(test: JsonObject, sis: str) -> str:
    """Return the id of the order that a test belongs to, '' for none."""
    requisition = test.get("requisition", {})
    return str(requisition.get("value", "")) if requisition.get("system") == order_number_system(sis) else ""


def order_of(transaction: Transaction, sis: str, test_id: str, test: JsonObject) -> StoredVersion | None:
    """Return the order that a test belongs to, while that is there and names it."""
    order_id = order_id_of(test, sis)
    order = find_order(transaction, order_id) if order_id else None
    return order if order is not None and test_id in tests_of(order.resource()) else None


def numbered(test: JsonObject, sis: str, order_id: str, test_id: str) -> JsonObject:
    """Return a test with the numbers of an order: that of the order, and its own, the placer order number.

    What a client's own requisition was stays among its identifiers.
    """
    system = placer_system(sis)
    others = [identifier for identifier in test.get("identifier", ()) if identifier.get("system") != system]
    given = test.get("requisition")
    if given and given.get("system") != order_number_system(sis) and given not in others:
        others.append(given)
    return {
        **test,
        "requisition": {"system": order_number_system(sis), "value": order_id},
        "identifier": [*others, {"type": PLACER_TYPE, "system": system, "value": test_id}],
    }


def settle_test(
    service: Service, transaction: Transaction, request: FhirRequest, test: JsonObject, live: StoredVersion | None
) -> JsonObject:
    """Return a ServiceRequest that a client writes, as it is kept: numbers of orders are given by the service alone.

    `live` is what it replaces, None for a new one. RefusedError (409): it changes what belongs to a living order.
    """
    sis = service.configuration.service_identifier_system
    before = live.resource() if live is not None else {}
    order_id = order_id_of(before, sis)
    kept = _unnumbered(test, sis)
    if live is None or not order_id:
        return kept
    kept = numbered(kept, sis, order_id, live.id)
    order = order_of(transaction, sis, live.id, before)
    if order is not None:
        _check(kept, before, status_of(order.resource(), sis), name_in(request.version, TEST), order.id)
    return kept


def _check(test: JsonObject, before: JsonObject, status: OrderStatus, name: str, order_id: str) -> None:
    names = {*test, *before}
    mine = names & OF_ORDER if status in OPEN else names - FREE
    wrong = sorted(one for one in mine if test.get(one) != before.get(one))
    if wrong:
        text = f"{NAME}/{order_id}, an order that is {status}, says what this is: "
        text += "change the order." if status in OPEN else "it cannot be changed any more."
        issues = tuple(Issue(text, f"{name}.{one}", f"order-{status}") for one in wrong)
        raise RefusedError(Category.CONFLICT, issues)


def _unnumbered(test: JsonObject, sis: str) -> JsonObject:
    forged = {order_number_system(sis), placer_system(sis)}
    made = dict(test)
    if made.get("requisition", {}).get("system") in forged:
        del made["requisition"]
    identifiers = [identifier for identifier in made.get("identifier", ()) if identifier.get("system") not in forged]
    if "identifier" in made:
        made["identifier"] = identifiers
        if not identifiers:
            del made["identifier"]
    return made
