"""The one who sends orders: of each laboratory one at a time, in the order of placing, each at most once.

That an order is being sent is on disk before a byte of it leaves. What a process left in that state is asked for at the
laboratory where that can be asked, and else held for a person.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Final, TypeVar

from engine import fault
from engine.config.laboratory import SIMULATED, Laboratory
from engine.errors import place_of
from engine.interchange.core.service import Service
from engine.interchange.kernel.poll_loop import poll_loop
from engine.interchange.orders.laboratory import settling
from engine.interchange.orders.laboratory.connectors.connected import connected
from engine.interchange.orders.laboratory.connectors.connector import CANNOT_BE_ASKED, Verdict, stay
from engine.interchange.orders.laboratory.results import return_results
from engine.interchange.store.store import transmission
from engine.interchange.store.store.transaction import EPOCH, Transaction
from engine.interchange.store.store.transmission import Outcome, Sent, TransmissionStatus
from engine.interchange.store.store.writer import StoreBusyError, StoreFailedError
from engine.telemetry import logger

T = TypeVar("T")
Lane = tuple[str, str]

# How often it looks for what other processes retry and cancel, and for what is due; this one's orders set the wakeup.
LOOK_SECONDS: Final = 1.0
BUSY_SECONDS: Final = 1.0
HELD_SECONDS: Final = 10.0
# How long what is being sent has to end when the service stops.
LEAVE_SECONDS: Final = 5.0
# Laboratories that are sent to at the same time.
AT_ONCE: Final = 32
RESULTS_AT_ONCE: Final = 20
SIMULATED_DELAY_SECONDS: Final = 2.0
NOT_CONNECTED: Final = Verdict(Outcome.UNREACHABLE, "not-connected", "the laboratory is not configured (laboratories)")


class Transmitter:
    """Sends the orders of a service; `run` does so until it is cancelled or the store fails for good."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lanes: dict[Lane, asyncio.Task[None]] = {}
        self._served: dict[Lane, int] = {}
        self._turn = 0
        self._sweep_at = 0.0
        self._leaving = False
        self._begun = False
        self.count: Callable[[str], None] = _uncounted

    async def run(self) -> None:
        """Send what waits, and settle what another process left behind, until cancelled; then leave in order."""
        store = self._service.store
        try:
            await poll_loop(self._look, self._service.laboratory_wakeup, LOOK_SECONDS, lambda: store.failed)
        finally:
            await self._leave()

    async def _look(self) -> None:
        """Do what there is to do now; what goes wrong is tried again at the next look, or no order would be sent."""
        try:
            if not self._begun:
                await self._take_over()
                self._begun = True
            await self._results()
            await self._overtaken()
            self._take_up()
        except StoreFailedError:
            return
        except Exception as error:  # noqa: BLE001 - as above
            logger().error("orders not looked for", error=type(error).__name__, file=place_of(error))

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
            await self._write(sent.tenant, partial(settling.overtaken, sent=sent, sis=sis))

    def _take_up(self) -> None:
        """Begin to send the first order of each laboratory to which none is being sent, those long not served first."""
        now = self._service.clock()
        known = self._service.configuration.tenants
        ready = [
            one
            for one in transmission.heads(self._service.store.reader())
            if one.tenant in known and (one.tenant, one.laboratory) not in self._lanes and self._due(one, now)
        ]
        ready.sort(key=lambda one: self._served.get((one.tenant, one.laboratory), 0))
        for head in ready[: AT_ONCE - len(self._lanes)]:
            lane = (head.tenant, head.laboratory)
            self._turn += 1
            self._served[lane] = self._turn
            task = asyncio.create_task(self._serve(head))
            self._lanes[lane] = task
            task.add_done_callback(partial(self._free, lane))

    def _free(self, lane: Lane, task: "asyncio.Task[None]") -> None:
        del self._lanes[lane]
        if not task.cancelled() and (error := task.exception()) is not None:
            # It is found by the next process.
            logger().error("order lost", destination=lane[1], error=type(error).__name__, file=place_of(error))
        self._service.laboratory_wakeup.set()

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
            if standing is TransmissionStatus.WAITING or self._leaving or len(self._lanes) >= AT_ONCE:
                return
            following = transmission.next_waiting(self._service.store.reader(), head.tenant, head.laboratory)
            head = following if following is not None and self._due(following, self._service.clock()) else None

    async def _send(self, head: Sent) -> TransmissionStatus | None:
        """Send an order, and return where it stands then; None where it was not to be sent.

        StoreFailedError: what becomes of it cannot be kept, or is no longer this process's business.
        """
        began = monotonic()
        sis = self._service.configuration.service_identifier_system
        taken = await self._write(head.tenant, partial(settling.take, head=head, sis=sis))
        if taken is None:
            return None
        fault.point("F39")
        if not self._service.store.term:
            # Another process may be the one who sends by now: it finds this order as one that was left behind.
            raise StoreFailedError
        verdict = await self._transmitted(taken)
        if verdict.outcome is Outcome.UNKNOWN:
            verdict = await self._asked(taken.sent, verdict)
        fault.point("F41")
        return await self._settle(taken.sent, verdict, began)

    async def _transmitted(self, taken: settling.Taken) -> Verdict:
        laboratory = self._laboratory(taken.sent)
        if laboratory is None:
            return NOT_CONNECTED
        try:
            return await connected(self._service, laboratory).transmit(taken.order, taken.control_id)
        except asyncio.CancelledError:
            stay()
            return Verdict(Outcome.UNKNOWN, "stopped", "the service was stopped while it was being sent")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not known what has left
            logger().error("order not sent", error=type(error).__name__, file=place_of(error))
            return Verdict(Outcome.UNKNOWN, "fault", "the service had an internal error while it was being sent")

    async def _asked(self, sent: Sent, otherwise: Verdict = CANNOT_BE_ASKED) -> Verdict:
        """Return what the laboratory says of an order of which nobody knows whether it has it."""
        laboratory = self._laboratory(sent)
        if laboratory is None:
            return otherwise
        said = await connected(self._service, laboratory).ask(settling.control_id(sent))
        return otherwise if said.outcome is Outcome.UNKNOWN else said

    async def _settle(self, sent: Sent, verdict: Verdict, began: float) -> TransmissionStatus:
        sis = self._service.configuration.service_identifier_system
        note = partial(settling.settle, sent=sent, verdict=verdict, laboratory=self._laboratory(sent), sis=sis)
        standing = await self._write(sent.tenant, note)
        self.count(verdict.outcome)
        tell = logger().warning if standing in {TransmissionStatus.HELD, TransmissionStatus.REFUSED} else logger().info
        tell(
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
                await self._write(sent.tenant, partial(return_results, sent=sent, sis=sis, new_id=service.new_id))

    async def _write(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Do a write, once another process leaves the database alone."""
        while True:
            try:
                return await self._service.store.write(tenant, work)
            except StoreBusyError:
                await asyncio.sleep(BUSY_SECONDS)

    async def _leave(self) -> None:
        """Let what is being sent come to an end, then break it off: what is known then is noted."""
        self._leaving = True
        for seconds in (LEAVE_SECONDS, LEAVE_SECONDS):
            left = list(self._lanes.values())
            if left:
                _, late = await asyncio.wait(left, timeout=seconds)
                for task in late:
                    task.cancel()


def _uncounted(_outcome: str) -> None:
    """Count nothing."""
