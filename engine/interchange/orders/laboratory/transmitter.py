"""The transmitter of orders: for each laboratory one at a time, in the order of placing, each at most once.

That an order is being sent is on disk before a byte of it leaves. What a process left in that state is asked for at the
laboratory where that can be asked, and else held for a person.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Final

from engine import fault
from engine.config.laboratory import SIMULATED, Laboratory
from engine.config.service import Environment
from engine.errors import place_of
from engine.interchange.core.service import Service
from engine.interchange.jobs.queue_worker import QueueWorker, WorkQueue
from engine.interchange.orders.laboratory import settling
from engine.interchange.orders.laboratory.connectors.connector import (
    CANNOT_BE_ASKED,
    OrderConnector,
    SendVerdict,
    SimulatedConnector,
    stay,
)
from engine.interchange.orders.laboratory.connectors.directory import DirectoryConnector
from engine.interchange.orders.laboratory.connectors.line import MllpConnector
from engine.interchange.orders.laboratory.results import return_results
from engine.interchange.store import transmission
from engine.interchange.store.transaction import EPOCH
from engine.interchange.store.transmission import Sent, TransmissionOutcome, TransmissionStatus
from engine.interchange.store.writer import StoreFailedError
from engine.telemetry import logger

Lane = tuple[str, str]

HELD_SECONDS: Final = 10.0
# Laboratories that are sent to at the same time.
AT_ONCE: Final = 32
RESULTS_AT_ONCE: Final = 20
SIMULATED_DELAY_SECONDS: Final = 2.0
NOT_CONNECTED: Final = SendVerdict(
    TransmissionOutcome.UNREACHABLE, "not-connected", "the laboratory is not configured (laboratories)"
)


class Transmitter:
    """Sends the orders of a service; `run` does so until it is cancelled or the store fails for good."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._sweep_at = 0.0
        self.count: Callable[[str], None] = _uncounted
        queue: WorkQueue[Lane] = WorkQueue(
            "orders",
            service.laboratory_wakeup,
            lost=lambda lane: ("order lost", {"destination": lane[1]}),
            look=self._look,
            recover=self._take_over,
        )
        self._worker = QueueWorker(service.store, queue)
        self.run = self._worker.run

    async def _look(self) -> None:
        await self._results()
        await self._overtaken()
        self._take_up()

    async def _take_over(self) -> None:
        """Ask for what was being sent when the process before ended."""
        left = transmission.in_standing(self._service.store.reader(), TransmissionStatus.SENDING)
        if left:
            logger().warning("orders were interrupted", count=len(left))
        for sent in left:
            await self._settle(sent, await self._asked(sent), monotonic())

    async def _overtaken(self) -> None:
        """Let go of what is held although its results are here, or it is gone: nobody need ask for it."""
        if monotonic() < self._sweep_at:
            return
        self._sweep_at = monotonic() + HELD_SECONDS
        sis = self._service.configuration.service_identifier_system
        for sent in transmission.in_standing(self._service.store.reader(), TransmissionStatus.HELD):
            await self._worker.write(sent.tenant, partial(settling.overtaken, sent=sent, sis=sis))

    def _take_up(self) -> None:
        """Begin to send the first order of each laboratory to which none is being sent."""
        now = self._service.clock()
        known = self._service.configuration.tenants
        ready = {
            (one.tenant, one.laboratory): partial(self._serve, one)
            for one in transmission.heads(self._service.store.reader())
            if one.tenant in known and self._due(one, now)
        }
        self._worker.take_up(ready, AT_ONCE)

    def _due(self, head: Sent, now: datetime) -> bool:
        """Say whether an order may be sent now; a simulated laboratory takes its time, or waits for a test's word."""
        laboratory = self._laboratory(head)
        if laboratory is None or laboratory.connector.type != SIMULATED:
            return EPOCH + timedelta(milliseconds=head.due_ms) <= now
        delay = laboratory.connector.transmit_delay_s
        if delay is None and self._service.configuration.test_hooks:
            return False
        seconds = SIMULATED_DELAY_SECONDS if delay is None else delay
        return EPOCH + timedelta(milliseconds=head.placed_ms, seconds=seconds) <= now

    def _laboratory(self, sent: Sent) -> Laboratory | None:
        configuration = self._service.configuration
        known = sent.tenant in configuration.tenants
        return configuration.laboratory(sent.tenant, sent.laboratory) if known else None

    async def _serve(self, head: Sent | None) -> None:
        """Send orders to one laboratory, one after the other, as long as nobody else waits for a turn."""
        while head is not None:
            try:
                standing = await self._send(head)
            except StoreFailedError:
                return
            if standing is TransmissionStatus.WAITING or self._worker.leaving or len(self._worker.lanes) >= AT_ONCE:
                return
            following = transmission.next_waiting(self._service.store.reader(), head.tenant, head.laboratory)
            head = following if following is not None and self._due(following, self._service.clock()) else None

    async def _send(self, head: Sent) -> TransmissionStatus | None:
        """Send an order, and return the status of its transmission; None where it was not to be sent.

        StoreFailedError: what becomes of it cannot be kept, or is no longer this process's business.
        """
        began = monotonic()
        sis = self._service.configuration.service_identifier_system
        taken = await self._worker.write(head.tenant, partial(settling.take, head=head, sis=sis))
        if taken is None:
            return None
        fault.point("F39")
        if not self._service.store.term:
            # Another process may be the one who sends by now: it finds this order as one that was left behind.
            raise StoreFailedError
        verdict = await self._transmitted(taken)
        if verdict.outcome is TransmissionOutcome.UNKNOWN:
            verdict = await self._asked(taken.sent, verdict)
        fault.point("F41")
        return await self._settle(taken.sent, verdict, began)

    async def _transmitted(self, taken: settling.SendingOrder) -> SendVerdict:
        laboratory = self._laboratory(taken.sent)
        if laboratory is None:
            return NOT_CONNECTED
        try:
            return await connected(self._service, laboratory).transmit(taken.order, taken.control_id)
        except asyncio.CancelledError:
            stay()
            return SendVerdict(
                TransmissionOutcome.UNKNOWN, "stopped", "the service was stopped while it was being sent"
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not known what has left
            logger().error("order not sent", error=type(error).__name__, file=place_of(error))
            return SendVerdict(
                TransmissionOutcome.UNKNOWN, "fault", "the service had an internal error while it was being sent"
            )

    async def _asked(self, sent: Sent, otherwise: SendVerdict = CANNOT_BE_ASKED) -> SendVerdict:
        """Ask the laboratory whether it has an order; return its verdict, `otherwise` without one."""
        laboratory = self._laboratory(sent)
        if laboratory is None:
            return otherwise
        said = await connected(self._service, laboratory).ask(settling.control_id(sent))
        return otherwise if said.outcome is TransmissionOutcome.UNKNOWN else said

    async def _settle(self, sent: Sent, verdict: SendVerdict, began: float) -> TransmissionStatus:
        sis = self._service.configuration.service_identifier_system
        note = partial(settling.settle, sent=sent, verdict=verdict, laboratory=self._laboratory(sent), sis=sis)
        standing = await self._worker.write(sent.tenant, note)
        self.count(verdict.outcome)
        log = logger().warning if standing in {TransmissionStatus.HELD, TransmissionStatus.REFUSED} else logger().info
        log(
            f"order {standing}",
            tenant=sent.tenant,
            destination=sent.laboratory,
            control_id=settling.control_id(sent),
            attempt=sent.tries,
            state=str(verdict.outcome),
            code=verdict.code,
            seconds=round(monotonic() - began, 3),
        )
        return standing

    async def _results(self) -> None:
        """Return the results that simulated laboratories have by now."""
        service = self._service
        for sent in transmission.results_due(service.store.reader(), service.clock(), RESULTS_AT_ONCE):
            if sent.tenant in service.configuration.tenants:
                sis = service.configuration.service_identifier_system
                await self._worker.write(
                    sent.tenant, partial(return_results, sent=sent, sis=sis, new_id=service.new_id)
                )


def _uncounted(_outcome: str) -> None:
    """Count nothing."""


def connected(service: Service, laboratory: Laboratory) -> OrderConnector:
    """Return the connector of a laboratory, as it is configured at this moment."""
    settings = laboratory.connector
    if settings.type == SIMULATED:
        return SimulatedConnector()
    production = service.configuration.environment is Environment.PRODUCTION
    processing_id = settings.processing_id or ("P" if production else "T")
    if settings.type == "directory":
        return DirectoryConnector(settings, processing_id, service.clock())
    return MllpConnector(settings, processing_id, service.clock(), service.outbound)
