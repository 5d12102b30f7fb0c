"""What the transmitter asks of a laboratory: to take an order, and whether it has one."""

import asyncio
from typing import NamedTuple, Protocol

from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome


class SendVerdict(NamedTuple):
    """What came of an order.

    UNREACHABLE: it is certain that nothing of it left, so it is tried again; UNKNOWN: something left, and no answer
    came. `code` stands in logs and at the order: nothing of a patient; `reason` is for operators.
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
        """Ask what became of an order that was, or may have been, handed over: UNKNOWN where nobody can say."""
        ...


# What a laboratory says that cannot be asked.
CANNOT_BE_ASKED = SendVerdict(
    TransmissionOutcome.UNKNOWN, "cannot-be-asked", "the laboratory cannot be asked whether it has the order"
)


def stay() -> None:
    """Take back that the present task was cancelled: what is known of an order is still to be noted."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
