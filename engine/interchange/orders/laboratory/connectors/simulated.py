"""The laboratory of a sandbox: it takes every order, at the moment that the transmitter waits for."""

from engine.interchange.orders.laboratory.connectors.connector import SendVerdict
from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome


class SimulatedConnector:
    """It is nowhere but in the service, so that what was not noted there did not happen."""

    async def transmit(self, order: LaboratoryOrder, control_id: str) -> SendVerdict:
        """Accept an order that has a test; nothing leaves."""
        if not order.tests:
            return SendVerdict(TransmissionOutcome.REFUSED, "no-test", f"{control_id} has no test that is there")
        return SendVerdict(TransmissionOutcome.ACCEPTED)

    async def ask(self, control_id: str) -> SendVerdict:
        """Say that it never had it."""
        return SendVerdict(TransmissionOutcome.NEVER_HAD_IT, "", f"{control_id} is not here")
