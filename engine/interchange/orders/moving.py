"""Transitions of an order: its next version and those of its tests, in one commit; and whether it may be deleted."""

from typing import Final

from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.orders.order import NAME, TEST, status_of, tests_of, with_status
from engine.interchange.orders.status import FHIR, TRANSITIONS, OrderEvent, OrderStatus, WrongStateError
from engine.interchange.store.transaction import StoredVersion, Transaction

# Results determine each test by itself: a result that comes or goes writes it.
OF_RESULTS: Final = frozenset({OrderEvent.RESULTED, OrderEvent.UNRESULTED})
# A laboratory may act on these.
UNDER_WAY: Final = frozenset({OrderStatus.PENDING, OrderStatus.SENT})
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
    """Return an order; None where there is none, or it is deleted."""
    stored = transaction.get(NAME, order_id)
    return None if stored is None or stored.deleted else stored


def check_deletion(stored: StoredVersion, sis: str) -> None:
    """Refuse (409) to delete an order that waits to be sent, or for its results."""
    status = status_of(stored.resource(), sis)
    if status in UNDER_WAY:
        hint = "cancel it first" if status is OrderStatus.PENDING else "the laboratory has it"
        text = f"{NAME}/{stored.id} is {status}: {hint}."
        raise refuse(Category.CONFLICT, text, location="http.id", detail=f"order-{status}")
