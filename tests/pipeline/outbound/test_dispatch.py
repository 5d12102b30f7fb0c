"""When a dispatch looks again, to the millisecond."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.config.destination import Retry
from engine.deliver.destination import FhirDestination
from engine.deliver.throttling import Breaker, BreakerState
from engine.journal.entry import Claimed
from engine.pipeline.dispatch import IDLE_SECONDS, Dispatch
from engine.pipeline.outbound.throttle import DeliveryThrottle
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
    shared: Any = SimpleNamespace(pauses=pauses, clock=lambda: NOW, time=time, feeds={})
    destination = SimpleNamespace(settings=SimpleNamespace(in_feed_order=False))
    dispatch = Dispatch("d", cast("FhirDestination", destination), desk.journal, throttle, shared)
    dispatch._checked = dispatch._probing = True
    dispatch._may_be_due = False
    dispatch._prefetched.ready.extend([CLAIMED] * ready)
    assert await dispatch._go_on() < 1 < IDLE_SECONDS
    assert len(dispatch._prefetched.ready) == ready
