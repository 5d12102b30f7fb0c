"""Orders move: the next version of an order and of its tests, in one commit."""

from typing import Final

from engine.interchange.orders.order import NAME, TEST, status_of, tests_of, with_status
from engine.interchange.orders.status import FHIR, TRANSITIONS, OrderEvent, OrderStatus, WrongStateError
from engine.interchange.store.transaction import StoredVersion, Transaction

# Results decide of each test by itself: those that come or go write it.
OF_RESULTS: Final = frozenset({OrderEvent.RESULTED, OrderEvent.UNRESULTED})
DONE: Final = FHIR[OrderStatus.COMPLETED]


def next_status(order: StoredVersion, sis: str, event: OrderEvent) -> OrderStatus:
    """Return the status that an event brings an order to; WrongStateError where it cannot happen to it."""
    status = status_of(order.resource(), sis)
    after = TRANSITIONS.get((status, event))
    if after is None:
        raise WrongStateError(order.id, status, event)
    return after


def move(transaction: Transaction, sis: str, order: StoredVersion, event: OrderEvent, note: str = "") -> StoredVersion:
    """Return the next version of an order that something happens to, kept with those of its tests.

    `order` is its present version, `note` what is to be read at it: nothing of a patient. WrongStateError: it cannot
    happen to an order in this state.
    """
    after = next_status(order, sis, event)
    resource = with_status(order.resource(), sis, after)
    if note:
        annotation = {"time": transaction.at.isoformat(timespec="milliseconds"), "text": note}
        resource["note"] = [*resource.get("note", ()), annotation]
    if event not in OF_RESULTS:
        for test_id in tests_of(resource):
            follow(transaction, test_id, FHIR[after])
    return transaction.restate(order, resource, ("status", "extension"))


def follow(transaction: Transaction, test_id: str, status: str, *, reopened: bool = False) -> None:
    """Keep the next version of a test that has another status; one with a result keeps it unless `reopened`."""
    stored = transaction.get(TEST, test_id)
    if stored is None or stored.deleted:
        return
    test = stored.resource()
    if test.get("status") == status or (test.get("status") == DONE and not reopened):
        return
    transaction.restate(stored, {**test, "status": status}, ("status",))


def find_order(transaction: Transaction, order_id: str) -> StoredVersion | None:
    """Return an order that is there; None where there is none, or no longer."""
    stored = transaction.get(NAME, order_id)
    return None if stored is None or stored.deleted else stored
