"""Dispatch, the scheduler: entries are claimed ahead in lane order, mapped and delivered, and end visibly.

    journal.claim -> deliver (delivery_worker.py): mapping.plan -> deliver -> journal.settle

One Dispatch serves one destination. What it claims heads all its lanes, so that everything under way at a time
belongs to different patients. The other half of the spine is intake.py.
"""

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from engine import telemetry
from engine.config.channel import AnyDestination
from engine.deliver.destination import FhirDestination
from engine.deliver.relay import RelayDestination
from engine.deliver.throttling import BreakerState
from engine.deliver.verdict import VerdictKind
from engine.errors import DeliveryError, DestinationError, JournalError, JournalRefusedError, place_of
from engine.journal.entry import Claimed
from engine.journal.journal import Journal
from engine.pipeline.delivery_worker import Carried, DeliveryWorker
from engine.pipeline.feed import PipelineContext
from engine.pipeline.outbound.destination_health import DestinationHealth, HealthState
from engine.pipeline.outbound.follow_ups import LookUps, Notices
from engine.pipeline.outbound.memory import DestinationMemory
from engine.pipeline.outbound.throttle import DeliveryThrottle
from engine.pipeline.outbound.version_checks import VersionChecks


class PrefetchBuffer:
    """Claimed deliveries (`ready`), and the number still to come (`awaited`); `supplied` is called when some arrive."""

    def __init__(
        self, destination: str, journal: Journal, clock: Callable[[], datetime], supplied: Callable[[], None]
    ) -> None:
        self._destination = destination
        self._journal = journal
        self._clock = clock
        self._supplied = supplied
        self.ready: deque[Claimed] = deque()
        self.awaited = 0

    def is_short(self, wanted: int) -> bool:
        """Say whether less than half of what is wanted is at hand or will come."""
        return (len(self.ready) + self.awaited) * 2 < wanted

    def has_room(self, wanted: int) -> bool:
        """Say whether less than half of what is wanted is at hand, so that what falls due now can be claimed."""
        return len(self.ready) * 2 < wanted

    async def ask(self, wanted: int, *, run: bool) -> None:
        """Claim what may run now, up to what is wanted, and ask for the rest as it comes; `run`: in feed order."""
        missing = wanted - len(self.ready)
        if missing > 0:
            await self._journal.ask(self._destination, missing, self._clock(), self._take, run=run)

    async def ask_for_probes(self, wanted: int, *, run: bool) -> None:
        """Claim what was tried least: were it the oldest, an entry that always fails would be every probe."""
        missing, now = wanted - len(self.ready), self._clock()
        self._add(await self._journal.claim(self._destination, missing, now, least_tried=True, run=run))

    async def give_back(self) -> None:
        """Release all of it: readers of the journal see it waiting, and may discard it."""
        while self.ready or self.awaited:
            seqs = [one.seq for one in self.ready]
            self.ready.clear()
            await self._journal.give_back(self._destination, seqs)
            self.awaited = 0

    def _add(self, claims: tuple[Claimed, ...]) -> None:
        """Put claims where they belong: what is replayed goes before what came after it and is not yet begun."""
        older = bool(self.ready and claims and claims[0].seq < self.ready[-1].seq)
        self.ready.extend(claims)
        if older:
            self.ready = deque(sorted(self.ready, key=lambda claim: claim.seq))

    def _take(self, claims: tuple[Claimed, ...], awaited: int) -> None:
        self._add(claims)
        self.awaited = awaited
        self._supplied()


IDLE_SECONDS: Final = 30.0
LEAST_SECONDS: Final = 0.01
STOP_SECONDS: Final = 8.0
# Between two tries of what the journal's database refuses.
REFUSED_SECONDS: Final = 10.0
# In the order of the feed: how many may be sent and not yet settled. These are sent again, in order, where the engine
# is killed before their settlement.
MOST_UNSETTLED: Final = 16

# How a delivery ends that lets go on what is behind it, whatever `on_held` says.
PASSED: Final = frozenset({VerdictKind.DELIVERED, VerdictKind.FILTERED})
DeliveryDestination = FhirDestination | RelayDestination

_log = telemetry.logger()


class Dispatch:
    """The deliveries of one destination, each settled before its lane goes on."""

    def __init__(
        self,
        name: str,
        destination: DeliveryDestination,
        journal: Journal,
        throttle: DeliveryThrottle,
        shared: PipelineContext,
    ) -> None:
        self.name = name
        self.destination = destination
        self.throttle = throttle
        self.health = DestinationHealth(name)
        self._pauses = shared.pauses
        self._next: tuple[DeliveryDestination, DeliveryThrottle] | None = None
        self._journal = journal
        self._clock = shared.clock
        self._time = shared.time
        memory = DestinationMemory(name, journal, shared.other_forms)
        self.follow_ups = tuple(
            kind(name, journal, shared, self._to_be_asked, random.random) for kind in (LookUps, Notices)
        )
        self._worker = DeliveryWorker(
            name, destination, throttle, journal, memory, self.health, self.follow_ups, shared
        )
        self._prefetched = PrefetchBuffer(name, journal, shared.clock, self._supplied)
        self._under_way: set[asyncio.Task[None]] = set()
        self._delivering = 0
        self._wake = asyncio.Event()
        self._stopping = False
        self._failed: BaseException | None = None
        self._checked = False
        self._checks = 0
        self._check_at: datetime | None = None
        self._may_be_due = True
        self._due = False
        self._probing = False
        self._versions = VersionChecks(name, journal, shared.clock)
        self._draining = False

    def wake(self) -> None:
        """Say that there may be something else to do."""
        self._wake.set()

    def look_again(self) -> None:
        """Called when another node may have left something that is due, or changed what blocks it."""
        self._may_be_due = True
        self._wake.set()
        for one in self.follow_ups:
            one.wake()

    def arrived(self) -> None:
        """Say that there is something new; what was asked for ahead is supplied by the journal itself."""
        self._may_be_due = self._may_be_due or self.destination.settings.waits
        if self._may_be_due or not self._prefetched.awaited:
            self._wake.set()

    async def run(self) -> None:
        """Claim and deliver until `stop` is called; a failure of the journal ends it."""
        while not self._stopping:
            self._wake.clear()
            try:
                rest = await self._go_on()
            except JournalRefusedError as error:
                _log.error("not claimed", destination=self.name, code=error.code, point=place_of(error))
                rest = REFUSED_SECONDS
            if self._failed is not None:
                raise self._failed
            self._check_at = None if self._checked else self._clock() + timedelta(seconds=rest)
            try:
                async with asyncio.timeout(rest):
                    await self._wake.wait()
            except TimeoutError:
                self._due = True

    async def _go_on(self) -> float:
        """Start what may start, and return for how long there is nothing else to do."""
        await self._time.mind()
        await self._swap_when_idle()
        if self._draining:
            await self._drain()
        if self.halted:
            await self._prefetched.give_back()
        elif await self._is_checked():
            wanted = await self._claim()
            self._start()
            return await self._rest_seconds(wanted)
        return IDLE_SECONDS if self.halted else self.throttle.backoff_seconds(self._checks)

    @property
    def settings(self) -> AnyDestination:
        """The destination as it is described now, or will be once what is under way has ended."""
        return (self._next[0] if self._next else self.destination).settings

    @property
    def server(self) -> FhirDestination | None:
        """The destination where it is a FHIR server, None where it is a relay."""
        return self.destination if isinstance(self.destination, FhirDestination) else None

    @property
    def in_feed_order(self) -> bool:
        """Whether entries are delivered one after the other as they came in, whomever they are about."""
        return self.destination.settings.in_feed_order

    @property
    def condition(self) -> HealthState:
        """How the destination does, the gravest first."""
        if self._pauses.of(self.name) is not None:
            return HealthState.PAUSED
        if self.health.failing:
            return HealthState.FAILING
        if not self._checked:
            return HealthState.UNREACHABLE
        return HealthState.OPEN if self.throttle.open else HealthState.READY

    @property
    def next_try_at(self) -> datetime | None:
        """When the destination is tried again by itself; None where it is well or paused, or being tried now."""
        if self.condition in {HealthState.PAUSED, HealthState.READY}:
            return None
        if not self._checked:
            return self._check_at
        is_waiting = self.throttle.breaker.gate is BreakerState.OPEN
        return self._clock() + timedelta(seconds=self.throttle.pause_seconds()) if is_waiting else None

    async def retry_now(self) -> None:
        """Try the destination at once, and what waits for its next try there; nothing starts while it is paused."""
        await self._journal.act(lambda context: context.operations.retry_all(self.name))
        self.throttle.retry_now()
        self.destination.retry_now()
        self._due = True
        self.look_again()

    def _to_be_asked(self) -> FhirDestination | None:
        """Return the destination while follow-ups may be asked for there: it is well, and stays."""
        well = not self._stopping and self._next is None and self.condition is HealthState.READY
        return self.server if well else None

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the destination was found not to do, as codes; empty while it has not been asked."""
        return self.destination.missing() if self._checked else ()

    @property
    def under_way(self) -> int:
        """How many deliveries are being carried out."""
        return self._delivering

    @property
    def halted(self) -> bool:
        """Whether nothing may start: the destination is paused, or about to be exchanged for another."""
        return self._next is not None or self._pauses.of(self.name) is not None

    def exchange(self, destination: DeliveryDestination, throttle: DeliveryThrottle) -> None:
        """Go on at a destination that is described anew, once what is under way has ended at the old one."""
        self._next = (destination, throttle)
        self._wake.set()

    async def _swap_when_idle(self) -> None:
        if self._next is None or self._under_way:
            return
        old, self.destination, self.throttle = self.destination, *self._next
        self._worker = replace(self._worker, destination=self.destination, throttle=self.throttle)
        self._next = None
        self._checked, self._checks, self.health.failing = False, 0, ""
        self.health.answered()
        telemetry.BREAKER.labels(self.name).set(0)
        await self._prefetched.give_back()
        await old.close()
        _log.info("destination exchanged", destination=self.name)

    async def stop(self) -> None:
        """Take nothing new, wait a bounded time for what is under way, then cut it off; a restart takes it up again."""
        self._stopping = True
        self._wake.set()
        await _finish(self._under_way, STOP_SECONDS)
        with contextlib.suppress(JournalError):
            await self._prefetched.give_back()

    async def _is_checked(self) -> bool:
        """Ask the destination what it can do, once; until it answers nothing is claimed for it."""
        if not self._checked:
            self._checks += 1
            await self._versions.recall(self.server)
            try:
                await self.destination.check()
            except DeliveryError as error:
                self.health.failing = str(error) if isinstance(error, DestinationError) else ""
                self.health.failed(str(error), self._clock())
                self.throttle.unreachable()
                _log.warning(
                    "destination does not answer", destination=self.name, attempt=self._checks, error=str(error)
                )
                return False
            self._checked, self.health.failing = True, ""
            self.health.answered()
            self.throttle.reached()
            for one in self.follow_ups:
                one.wake()
            _log.info("destination ready", destination=self.name, codes=list(self.lacks))
            self._versions.tell(self.server)
        return True

    async def _claim(self) -> int:
        """Keep as much claimed or asked for ahead as may be under way at once; ask only when half of that is gone.

        Returns how much that is: 0 until an open breaker lets the next probe start.
        """
        probing = self.throttle.open
        if probing and not self._probing:
            await self._prefetched.give_back()
        self._probing = probing
        wanted = self.throttle.ahead()
        if self._prefetched.is_short(wanted) or self._due:
            self._due = False
            ask = self._prefetched.ask_for_probes if probing else self._prefetched.ask
            await ask(wanted, run=self.in_feed_order)
        return wanted

    async def _drain(self) -> None:
        """Wait for the end of what is under way, and give back what is claimed behind it."""
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._prefetched.give_back()
        self._draining = False

    def _supplied(self) -> None:
        self._start()
        if self._prefetched.ready or self.halted or self._prefetched.is_short(self.throttle.ahead()):
            self._wake.set()

    def _start(self) -> None:
        while (claimed := self._startable()) is not None:
            self._track(self._deliver(claimed))

    def _startable(self) -> Claimed | None:
        """Take what may start now; None where nothing may."""
        ready = self._prefetched.ready
        if not (ready and self._may_start() and self.throttle.admit(self._delivering)):
            return None
        self._delivering += 1
        return ready.popleft()

    def _track(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    def _may_start(self) -> bool:
        full = self.in_feed_order and len(self._under_way) >= MOST_UNSETTLED
        return not (self._stopping or self.halted or self._draining or full)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed = error
        # A breaker that has just opened is waited for by its own time, not by that of an idle destination.
        urgent = self._failed is not None or self.halted or self._draining or self.throttle.pause_seconds()
        self._start()
        wanted = self.throttle.ahead()
        if urgent or self._prefetched.is_short(wanted) or (self._may_be_due and self._prefetched.has_room(wanted)):
            self._wake.set()

    async def _rest_seconds(self, wanted: int) -> float:
        # A breaker whose time is up by now, and was not when the claims were looked at, is looked at again at once.
        if not wanted:
            return max(self.throttle.pause_seconds(), LEAST_SECONDS)
        if not (self._may_be_due and self._prefetched.has_room(wanted)):
            return IDLE_SECONDS
        due = await self._journal.next_due(self.name)
        if due is None:
            # What waits behind something else may have a time of its own.
            self._may_be_due = self.destination.settings.waits
            return IDLE_SECONDS
        # What is due may still wait for something that is under way: it is not asked for again and again meanwhile.
        wait = 0.0 if await self._time.mind() else (due - self._clock()).total_seconds()
        return min(max(wait, LEAST_SECONDS), IDLE_SECONDS)

    async def _deliver(self, claimed: Claimed | None) -> None:
        """Deliver one after the other while they may start; how each ended is written down meanwhile."""
        while claimed is not None:
            try:
                carried = await self._worker.deliver(claimed)
                # What was claimed behind it may only go where it goes: the lane is asked anew.
                self._draining = self._draining or (self.in_feed_order and carried.verdict.kind not in PASSED)
            finally:
                self._delivering -= 1
            self._track(self._settle(claimed, carried))
            claimed = self._startable()
            self._start()

    async def _settle(self, claimed: Claimed, carried: Carried) -> None:
        if await self._worker.settle(claimed, carried):
            self._may_be_due = True
            self._wake.set()
        self._versions.tell(self.server if self._checked else None)
        await self._versions.keep(self.server)


async def _finish(under_way: set[asyncio.Task[None]], seconds: float) -> None:
    """Wait until nothing is under way, also what begins as something else ends; cut off what is late."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while under_way:
                await asyncio.wait(under_way)
    late = tuple(under_way)
    for task in late:
        task.cancel()
    await asyncio.gather(*late, return_exceptions=True)
