"""What laboratories do with orders, done to a service of the tests from within, in a connector's commits."""

from engine.interchange.orders.order import OrderEvent, find_order, move
from engine.interchange.store import transmission
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import TransmissionOutcome, TransmissionStatus
from tests.interchange.kit import SYSTEM, Inside

TOLD = {
    OrderEvent.TRANSMITTED: (TransmissionOutcome.ACCEPTED, TransmissionStatus.ACCEPTED),
    OrderEvent.REFUSED: (TransmissionOutcome.REFUSED, TransmissionStatus.REFUSED),
}


def laboratory(transaction: Transaction, order_id: str, event: OrderEvent, note: str = "") -> None:
    """Let a laboratory take or refuse an order; WrongStateError, and nothing is written, where it cannot."""
    order = find_order(transaction, order_id)
    assert order is not None
    move(transaction, SYSTEM, order, event, note)
    sent = transmission.find_sent(transaction, order_id)
    assert sent is not None
    outcome, standing = TOLD[event]
    if sent.standing is TransmissionStatus.WAITING:
        begun = transmission.begin(transaction, sent, "c-1")
        assert begun is not None
        transmission.tried(transaction, begun, outcome, "")
        sent = begun
    assert transmission.move(transaction, sent, standing, note) is not None


def happen(inside: Inside, order_id: str, event: OrderEvent, note: str = "") -> None:
    """Let a laboratory take or refuse an order of a service."""
    store = inside.app.service.store
    inside.run(store.write("riverbend", lambda transaction: laboratory(transaction, order_id, event, note)))
