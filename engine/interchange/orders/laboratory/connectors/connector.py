"""The connector of a laboratory: it takes an order, and says whether it has one."""

import asyncio
from typing import NamedTuple, Protocol

from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome


class SendVerdict(NamedTuple):
    """The outcome of sending an order.

    UNREACHABLE: it is certain that nothing of it left, so it is tried again; UNKNOWN: something left, and no answer
    came. `code` is for logs and for the order, without patient data; `reason` is for operators.
    """

    outcome: TransmissionOutcome
    code: str = ""
    reason: str = ""


class OrderConnector(Protocol):
    """The way to one laboratory."""

    async def transmit(self, order: LaboratoryOrder, control_id: str) -> SendVerdict:
        """Hand an order over; the same control id is the same message, which a laboratory may know."""
        ...

    async def ask(self, control_id: str) -> SendVerdict:
        """Ask for the outcome of an order that was, or may have been, handed over: UNKNOWN without an answer."""
        ...


# The verdict of a laboratory that cannot be asked.
CANNOT_BE_ASKED = SendVerdict(
    TransmissionOutcome.UNKNOWN, "cannot-be-asked", "the laboratory cannot be asked whether it has the order"
)


class SimulatedConnector:
    """The laboratory of a sandbox: it accepts every order, and has none that the service has not recorded."""

    async def transmit(self, order: LaboratoryOrder, control_id: str) -> SendVerdict:
        """Accept an order that has a test; nothing leaves."""
        if not order.tests:
            return SendVerdict(TransmissionOutcome.REFUSED, "no-test", f"{control_id} has no test that is there")
        return SendVerdict(TransmissionOutcome.ACCEPTED)

    async def ask(self, control_id: str) -> SendVerdict:
        """Answer that it never had the order."""
        return SendVerdict(TransmissionOutcome.NEVER_HAD_IT, "", f"{control_id} is not here")


def stay() -> None:
    """Undo the cancellation of the present task: the outcome of an order is still to be recorded."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
