"""POST /_test/lab: a test says what a laboratory does with an order, where it would have to wait for it."""

from collections.abc import Callable
from typing import Final

from engine.config.laboratory import SIMULATED, Laboratory
from engine.fhir.json import Json
from engine.interchange.core.service import Service
from engine.interchange.orders.laboratory import settling
from engine.interchange.orders.laboratory.connectors.connector import SendVerdict
from engine.interchange.orders.laboratory.results import return_results
from engine.interchange.store import transmission
from engine.interchange.store.transaction import Transaction
from engine.interchange.store.transmission import Sent, TransmissionOutcome, TransmissionStatus

EVENTS: Final = ("accept", "refuse", "transmit", "complete")
ASKED_BY_A_TEST: Final = SendVerdict(TransmissionOutcome.REFUSED, "AE", "a test said so")


class LaboratoryHookError(Exception):
    """What a test asked a laboratory for cannot be; `status` is that of the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def laboratory_hook(service: Service, body: Json) -> Json:
    """Let something happen to an order, `{"order": id, "event": one of EVENTS}`; return where it then is on its way.

    LaboratoryHookError: 400 for what is not understood, 404 for an order that was never pending, 409 for one to which
    this cannot happen now.
    """
    order_id, event = _asked(body)
    found = transmission.sent_of_id(service.store.reader(), order_id)
    if not found:
        raise LaboratoryHookError(404, f"the order {order_id[:64]} was never pending here: $submit it first")
    tenant = found[0].tenant

    def work(transaction: Transaction) -> TransmissionStatus:
        sent = transmission.find_sent(transaction, order_id)
        if sent is None:
            raise LaboratoryHookError(404, f"the order {order_id[:64]} is no longer there")
        laboratory = service.configuration.laboratory(tenant, sent.laboratory)
        return DONE[event](service, transaction, sent, laboratory)

    standing = await service.store.write(tenant, work)
    service.laboratory_wakeup.set()
    return {"status": "done", "order": order_id, "standing": str(standing)}


def _asked(body: Json) -> tuple[str, str]:
    asked = body if isinstance(body, dict) else {}
    order_id, event = asked.get("order"), asked.get("event")
    if not isinstance(order_id, str) or event not in EVENTS:
        raise LaboratoryHookError(400, f'/_test/lab takes {{"order": id, "event": {" | ".join(EVENTS)}}}')
    return order_id, event


def _accept(
    service: Service, transaction: Transaction, sent: Sent, laboratory: Laboratory | None
) -> TransmissionStatus:
    _demand(sent, "accepted", TransmissionStatus.WAITING)
    if laboratory is None or laboratory.connector.type != SIMULATED:
        raise LaboratoryHookError(409, f"the laboratory {sent.laboratory} is not simulated: it answers for itself")
    return _sent(service, transaction, sent, SendVerdict(TransmissionOutcome.ACCEPTED), laboratory)


def _refuse(
    service: Service, transaction: Transaction, sent: Sent, laboratory: Laboratory | None
) -> TransmissionStatus:
    _demand(sent, "refused", TransmissionStatus.WAITING, TransmissionStatus.ACCEPTED)
    if sent.standing is TransmissionStatus.WAITING:
        return _sent(service, transaction, sent, ASKED_BY_A_TEST, laboratory)
    moved = transmission.move(transaction, sent, TransmissionStatus.REFUSED, ASKED_BY_A_TEST.reason)
    if moved is not None:
        settling.refused(transaction, moved, ASKED_BY_A_TEST, service.configuration.service_identifier_system)
    return TransmissionStatus.REFUSED


def _transmit(
    service: Service, transaction: Transaction, sent: Sent, laboratory: Laboratory | None
) -> TransmissionStatus:
    _demand(sent, "transmitted", TransmissionStatus.WAITING)
    if laboratory is not None and laboratory.connector.type == SIMULATED:
        return _accept(service, transaction, sent, laboratory)
    transmission.hurry(transaction, sent)
    return TransmissionStatus.WAITING


def _complete(
    service: Service, transaction: Transaction, sent: Sent, _laboratory: Laboratory | None
) -> TransmissionStatus:
    _demand(sent, "completed", TransmissionStatus.ACCEPTED)
    if not return_results(transaction, sent, service.configuration.service_identifier_system, service.new_id):
        raise LaboratoryHookError(409, f"the order {sent.order_id} has results of all its tests")
    return TransmissionStatus.ACCEPTED


def _sent(
    service: Service, transaction: Transaction, sent: Sent, verdict: SendVerdict, laboratory: Laboratory | None
) -> TransmissionStatus:
    """Send an order and have its answer, both in this commit."""
    sis = service.configuration.service_identifier_system
    taken = settling.take(transaction, sent, sis)
    if taken is None:
        raise LaboratoryHookError(409, f"the order {sent.order_id} is no longer pending")
    return settling.settle(transaction, taken.sent, verdict, laboratory, sis)


def _demand(sent: Sent, done: str, *standings: TransmissionStatus) -> None:
    if sent.standing not in standings:
        wanted = " or ".join(standings)
        raise LaboratoryHookError(
            409, f"the order {sent.order_id} is {sent.standing}: it cannot be {done}, only one that is {wanted}"
        )


DONE: Final[dict[str, Callable[[Service, Transaction, Sent, Laboratory | None], TransmissionStatus]]] = {
    "accept": _accept,
    "refuse": _refuse,
    "transmit": _transmit,
    "complete": _complete,
}
