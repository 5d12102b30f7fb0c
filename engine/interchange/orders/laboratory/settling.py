"""An order is taken up to be sent, and what came of it is noted: each in one commit with the order's next version."""

from base64 import b32encode
from datetime import timedelta
from hashlib import sha256
from typing import Final, NamedTuple

from engine import fault
from engine.config.laboratory import SIMULATED, Laboratory
from engine.interchange.orders.laboratory.connectors.connector import SendVerdict
from engine.interchange.orders.laboratory.message.ordered import OWN_NOTE
from engine.interchange.orders.laboratory.order import LaboratoryOrder, read_order
from engine.interchange.orders.order import OrderEvent, OrderStatus, find_order, move, status_of
from engine.interchange.store import transmission
from engine.interchange.store.transaction import EPOCH, Transaction
from engine.interchange.store.transmission import Sent, TransmissionOutcome, TransmissionStatus

SHORTEST_WAIT: Final = timedelta(seconds=5)
LONGEST_WAIT: Final = timedelta(minutes=5)
# MSH-10 is no longer than this in any version.
CONTROL_ID_LENGTH: Final = 20
# What an order that is no longer pending means for one that waits or is held.
OVERTAKEN: Final = {
    OrderStatus.SENT: TransmissionStatus.ACCEPTED,
    OrderStatus.COMPLETED: TransmissionStatus.ACCEPTED,
}


class SendingOrder(NamedTuple):
    """An order that is being sent, with its content for the laboratory."""

    sent: Sent
    order: LaboratoryOrder
    control_id: str


def control_id(sent: Sent) -> str:
    """Return the control id of the present attempt: the same for each repetition."""
    digest = sha256(f"{sent.tenant}/{sent.order_id}/{sent.attempt}".encode()).digest()
    return b32encode(digest).decode()[:CONTROL_ID_LENGTH]


def take(transaction: Transaction, head: Sent, sis: str) -> SendingOrder | None:
    """Record that an order is being sent; None if its status has changed, or its content is incomplete."""
    sent = transmission.find_sent(transaction, head.order_id)
    if sent is None or sent.number != head.number or sent.standing is not TransmissionStatus.WAITING:
        return None
    if overtaken(transaction, sent, sis):
        return None
    order = read_order(transaction, sent.tenant, sis, sent.order_id)
    if order is None:
        transmission.move(transaction, sent, TransmissionStatus.HELD, "its patient, or one of its tests, is not there")
        return None
    named = control_id(sent)
    begun = transmission.begin(transaction, sent, named)
    fault.point("F38")
    return SendingOrder(begun, order, named) if begun is not None else None


def overtaken(transaction: Transaction, sent: Sent, sis: str) -> bool:
    """End the transmission of an order that is no longer pending, as it has results or is deleted; True if it was."""
    stored = find_order(transaction, sent.order_id)
    status = status_of(stored.resource(), sis) if stored is not None else None
    if status is OrderStatus.PENDING:
        return False
    to = OVERTAKEN.get(status, TransmissionStatus.WITHDRAWN) if status is not None else TransmissionStatus.WITHDRAWN
    reason = f"the order is {status}" if status is not None else "the order is not there"
    return transmission.move(transaction, sent, to, reason) is not None


def settle(
    transaction: Transaction, sent: Sent, verdict: SendVerdict, laboratory: Laboratory | None, sis: str
) -> TransmissionStatus:
    """Record the outcome of an attempt, and move the order; return the new status of its transmission."""
    transmission.tried(transaction, sent, verdict.outcome, _reason(verdict))
    to = _standing(transaction, sent, verdict, laboratory)
    due = (
        transaction.at + _wait(transaction, sent)
        if verdict.outcome is TransmissionOutcome.UNREACHABLE
        else transaction.at
    )
    reason = (
        "" if verdict.outcome in {TransmissionOutcome.ACCEPTED, TransmissionOutcome.NEVER_HAD_IT} else _reason(verdict)
    )
    moved = transmission.move(transaction, sent, to, reason, due=due)
    if moved is None:
        return sent.standing
    if to is TransmissionStatus.ACCEPTED:
        accepted(transaction, moved, laboratory, sis)
    elif to is TransmissionStatus.REFUSED:
        refused(transaction, moved, verdict, sis)
    fault.point("F42")
    return to


def accepted(transaction: Transaction, sent: Sent, laboratory: Laboratory | None, sis: str) -> None:
    """Let an order be sent that is pending, and a simulated laboratory begin to work."""
    _move_order(transaction, sent, OrderEvent.TRANSMITTED, sis, OrderStatus.PENDING)
    settings = laboratory.connector if laboratory is not None else None
    if settings is not None and settings.type == SIMULATED and settings.results:
        transmission.expect_results(transaction, sent, transaction.at + timedelta(seconds=settings.result_delay_s))


def refused(transaction: Transaction, sent: Sent, verdict: SendVerdict, sis: str) -> None:
    """Let an order fail that is pending or sent, with a note that says so."""
    note = f"{OWN_NOTE}the laboratory has refused the order ({verdict.code or 'no code'})."
    _move_order(transaction, sent, OrderEvent.REFUSED, sis, OrderStatus.PENDING, OrderStatus.SENT, note=note)


def _move_order(
    transaction: Transaction, sent: Sent, event: OrderEvent, sis: str, *states: OrderStatus, note: str = ""
) -> None:
    """Move an order that is in one of these states; results may have come before the answer."""
    stored = find_order(transaction, sent.order_id)
    if stored is not None and status_of(stored.resource(), sis) in states:
        move(transaction, sis, stored, event, note)


def _standing(
    transaction: Transaction, sent: Sent, verdict: SendVerdict, laboratory: Laboratory | None
) -> TransmissionStatus:
    if verdict.outcome is TransmissionOutcome.UNREACHABLE:
        waited = transaction.at - (EPOCH + timedelta(milliseconds=sent.placed_ms))
        patient = laboratory is None or waited < timedelta(seconds=laboratory.give_up_s)
        return TransmissionStatus.WAITING if patient else TransmissionStatus.HELD
    return {
        TransmissionOutcome.ACCEPTED: TransmissionStatus.ACCEPTED,
        TransmissionOutcome.REFUSED: TransmissionStatus.REFUSED,
        TransmissionOutcome.NEVER_HAD_IT: TransmissionStatus.WAITING,
    }.get(verdict.outcome, TransmissionStatus.HELD)


def _wait(transaction: Transaction, sent: Sent) -> timedelta:
    """Return how long to wait for the next try: as long as it has been tried so far, within bounds."""
    waited = transaction.at - (EPOCH + timedelta(milliseconds=sent.placed_ms))
    return min(max(waited, SHORTEST_WAIT), LONGEST_WAIT)


def _reason(verdict: SendVerdict) -> str:
    return ": ".join(filter(None, (verdict.code, verdict.reason)))
