"""When a dispatch looks again, to the millisecond; and what it waits for when it stops."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.config.destination import Retry
from engine.deliver.destination import FhirDestination
from engine.deliver.throttling import Breaker, BreakerState
from engine.journal.entry import Claimed
from engine.pipeline.delivery_worker import SKIPPED, Carried, DeliveryWorker
from engine.pipeline.dispatch import IDLE_SECONDS, Dispatch
from engine.pipeline.outbound.throttle import DeliveryThrottle
from engine.pipeline.outbound.version_checks import VersionChecks
from tests.journal.desk import NOW, Desk

UNTIL = 100.0
CLAIMED = Claimed(1, "d", b"", "adt", "ADT|RVB", "1", "A01", NOW, 0, 0, None, (1,), replay=False, forced=False)


async def _nothing() -> bool:
    return False


@pytest.mark.parametrize("ready", [0, 1, 2])
async def test_a_breaker_whose_time_comes_during_a_look_is_looked_at_again_at_once(desk: Desk, ready: int) -> None:
    """A timer that is up a millisecond early finds the breaker closed to all; what follows is not the idle rest."""
    early = iter((UNTIL - 0.001, UNTIL - 0.001))
    throttle = DeliveryThrottle("d", 8, Retry(), lambda: next(early, UNTIL + 0.001), lambda: 0.0)
    throttle.breaker = replace(Breaker(), gate=BreakerState.OPEN, failures=6, until=UNTIL)
    pauses, time = SimpleNamespace(of=lambda _name: None), SimpleNamespace(mind=_nothing)
    shared: Any = SimpleNamespace(pauses=pauses, clock=lambda: NOW, time=time, feeds={}, other_forms=None)
    destination = SimpleNamespace(settings=SimpleNamespace(in_feed_order=False))
    dispatch = Dispatch("d", cast("FhirDestination", destination), desk.journal, throttle, shared)
    dispatch._checked = dispatch._probing = True
    dispatch._may_be_due = False
    dispatch._prefetched.ready.extend([CLAIMED] * ready)
    assert await dispatch._go_on() < 1 < IDLE_SECONDS
    assert len(dispatch._prefetched.ready) == ready


async def test_what_was_delivered_is_written_down_before_a_stop_ends(desk: Desk) -> None:
    """Also where the answer comes once the stop has begun: a restart would carry it out again."""
    shared: Any = SimpleNamespace(
        pauses=SimpleNamespace(of=lambda _name: None), clock=lambda: NOW, feeds={}, time=None, other_forms=None
    )
    destination = SimpleNamespace(settings=SimpleNamespace(in_feed_order=False))
    throttle = DeliveryThrottle("d", 8, Retry(), lambda: 0.0, lambda: 0.0)
    dispatch = Dispatch("d", cast("FhirDestination", destination), desk.journal, throttle, shared)
    answered, settled = asyncio.Event(), []

    async def deliver(_claimed: Claimed) -> Carried:
        await answered.wait()
        return Carried(SKIPPED)

    async def settle(claimed: Claimed, _carried: Carried) -> bool:
        for _ in range(5):
            await asyncio.sleep(0)
        settled.append(claimed.seq)
        return False

    dispatch._worker = cast("DeliveryWorker", SimpleNamespace(deliver=deliver, settle=settle))
    dispatch._versions = cast("VersionChecks", SimpleNamespace(tell=lambda _server: None, keep=lambda _: _nothing()))
    dispatch._prefetched.ready.append(CLAIMED)
    dispatch._start()
    stopping = asyncio.create_task(dispatch.stop())
    await asyncio.sleep(0)
    answered.set()
    await stopping
    assert settled == [CLAIMED.seq]


@pytest.mark.parametrize("waits", [True, False])
async def test_an_update_that_waits_behind_another_is_looked_for_when_that_has_ended(desk: Desk, waits: bool) -> None:
    """It has a time of its own, of which nobody hears before it heads its lane."""
    shared: Any = SimpleNamespace(
        pauses=SimpleNamespace(of=lambda _name: None), clock=lambda: NOW, feeds={}, time=None, other_forms=None
    )
    destination = SimpleNamespace(settings=SimpleNamespace(in_feed_order=False, waits=waits))
    throttle = DeliveryThrottle("d", 8, Retry(), lambda: 0.0, lambda: 0.0)
    dispatch = Dispatch("d", cast("FhirDestination", destination), desk.journal, throttle, shared)
    assert await dispatch._rest_seconds(1) == IDLE_SECONDS
    dispatch._wake.clear()
    dispatch._prefetched.awaited = 8
    ended = asyncio.create_task(_nothing())
    await ended
    dispatch._ended(cast("asyncio.Task[None]", ended))
    assert dispatch._wake.is_set() is waits
