"""The sender of webhooks: a few of each subscription at a time, so that a slow subscriber delays no other.

An event waits on disk until its subscriber accepts it or the attempts are used up. What was under way when a process
ended is sent again: receivers see each event at least once, and recognise a repeat by the version in its `meta`.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from engine import fault
from engine.errors import place_of
from engine.interchange.core.service import Service
from engine.interchange.events.subscriptions.header import unseal
from engine.interchange.events.subscriptions.settling import end_those_over
from engine.interchange.events.webhooks.servers import AddressError, ServerAddress, Servers, resolve
from engine.interchange.events.webhooks.settling import TIMEOUT_SECONDS, Settled, headers_of, settle, shown_body
from engine.interchange.jobs.queue_worker import LaneWork, QueueWorker, WorkQueue
from engine.interchange.kernel.outbound import OutboundError
from engine.interchange.store import notification
from engine.interchange.store.notification import QueuedNotification, SendAttempt, Subscriber
from engine.interchange.store.transaction import milliseconds
from engine.telemetry import logger

# A subscription: number of its tenant, and id.
Lane = tuple[int, str]

# Events of one subscription that are sent at the same time.
AT_ONCE: Final = 4
# Subscriptions that are sent to at the same time. Those that failed or were slow the last time have fewer places of
# their own, so that receivers that are down leave the places of the others free.
LANES: Final = 64
TROUBLED_LANES: Final = 32
SLOW_MS: Final = 2000
# The pause of a subscription whose subscriber failed or was slow, which leaves capacity to the others.
REST_SECONDS: Final = 0.25
# Outcomes are stored at common moments, unless more events wait: each commit delays all writes.
TOGETHER_SECONDS: Final = 0.1
UNREADABLE: Final = "its header lines cannot be opened: write the subscription again"
GONE: Final = "the version is no longer kept"


class WebhookSender:
    """Sends the webhooks of a service; `run` does so until it is cancelled or the store fails for good."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._slow: set[Lane] = set()
        self._servers = Servers(service.outbound, TIMEOUT_SECONDS)
        self.count: Callable[[str], None] = _uncounted
        queue: WorkQueue[Lane] = WorkQueue(
            "webhooks",
            service.webhook_wakeup,
            lost=lambda _lane: ("webhooks not sent", {}),
            look=self._look,
            finish=self._close,
        )
        self._worker = QueueWorker(service.store, queue)
        self.run = self._worker.run

    async def _look(self) -> None:
        await end_those_over(self._service)
        self._take_up()
        await self._servers.close_idle()

    def _take_up(self) -> None:
        """Start each subscription that has events to send, as far as there are places."""
        service = self._service
        sound: dict[Lane, Callable[[], LaneWork]] = {}
        troubled: dict[Lane, Callable[[], LaneWork]] = {}
        for one in notification.ready(service.store.reader(), milliseconds(service.clock())):
            lane = _lane(one)
            if one.tenant not in service.configuration.tenants:
                continue
            if one.failures or lane in self._slow:
                troubled[lane] = partial(self._serve, one, 1)
            else:
                sound[lane] = partial(self._serve, one, AT_ONCE)
        self._worker.take_up(sound, LANES, "sound")
        self._worker.take_up(troubled, TROUBLED_LANES, "troubled")

    async def _serve(self, subscriber: Subscriber, at_once: int) -> bool:
        """Send the events of a subscription until none is left, or its subscriber fails or is slow.

        True if none is left.
        """
        service = self._service
        going = True
        while going and not self._worker.leaving:
            now_ms = milliseconds(service.clock())
            batch = notification.due(service.store.reader(), subscriber, now_ms, at_once)
            if not batch:
                return True
            attempts = await asyncio.gather(*(self._send(subscriber, queued) for queued in batch))
            fault.point("F45")
            if len(batch) < at_once and not self._worker.leaving:
                await asyncio.sleep(TOGETHER_SECONDS - asyncio.get_running_loop().time() % TOGETHER_SECONDS)
            going = await self._settle(subscriber, batch, attempts)
        if not self._worker.leaving:
            await asyncio.sleep(REST_SECONDS)
        return False

    async def _send(self, subscriber: Subscriber, queued: QueuedNotification) -> SendAttempt:
        """Send an event once."""
        began_ms = milliseconds(self._service.clock())
        status = 0
        try:
            status, reason = await self._post(subscriber, queued)
        except TimeoutError:
            reason = "did not answer in time"
        except (AddressError, OutboundError) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - any error fails this event only, which is tried again
            logger().error("webhook not sent", error=type(error).__name__, file=place_of(error))
            reason = "the service had an internal error while it was being sent"
        return SendAttempt(queued.number, began_ms, milliseconds(self._service.clock()), status, reason)

    async def _post(self, subscriber: Subscriber, queued: QueuedNotification) -> tuple[int, str]:
        """Return the status of a subscriber's answer, or 0 and why nothing can be sent."""
        service = self._service
        lines = unseal(service.seal_secret, subscriber.number, subscriber.id, subscriber.headers)
        if queued.body is None:
            return 0, GONE
        if lines is None:
            return 0, UNREADABLE
        body, headers = shown_body(queued), headers_of(queued, lines)
        parts = urlsplit(subscriber.endpoint)
        host, port = parts.hostname or "", parts.port or 443
        allow = service.configuration.tenants[subscriber.tenant].webhook_allow
        place = ServerAddress(subscriber.number, f"{host}:{port}", service.configuration.webhooks.ca_bundle)
        async with self._servers.turn(place) as peer, asyncio.timeout(TIMEOUT_SECONDS):
            address = await resolve(host, port, allow)
            fault.point("F46")
            return await peer.post_to(address, subscriber.endpoint, headers, body), ""

    async def _settle(
        self, subscriber: Subscriber, batch: tuple[QueuedNotification, ...], attempts: list[SendAttempt]
    ) -> bool:
        """Store the outcomes of some events; True if their subscription may go on."""
        settled = await self._worker.write(
            subscriber.tenant, partial(settle, subscriber=subscriber, batch=batch, attempts=attempts)
        )
        lane = _lane(subscriber)
        slow = any(attempt.ended_ms - attempt.began_ms >= SLOW_MS for attempt in attempts)
        (self._slow.add if slow else self._slow.discard)(lane)
        self._report(subscriber, settled)
        return not slow and settled.failed == 0

    def _report(self, subscriber: Subscriber, settled: Settled) -> None:
        for outcome in settled.outcomes:
            self.count(outcome)
        about = {"tenant": subscriber.tenant, "subscription": subscriber.id}
        if settled.failed:
            logger().warning("webhook failed", **about, count=settled.failed, reason=settled.reason)
        if settled.dropped:
            logger().error("webhook dropped", **about, count=settled.dropped, reason=settled.reason)
        if settled.suspended:
            logger().error("subscription suspended", **about, reason=settled.reason)

    async def _close(self, _left: Sequence[Lane]) -> None:
        """Close the connections; the next process sends interrupted events again."""
        await self._servers.close_idle(0)


def _lane(subscriber: Subscriber) -> Lane:
    return subscriber.number, subscriber.id


def _uncounted(_outcome: str) -> None:
    """Count nothing."""
