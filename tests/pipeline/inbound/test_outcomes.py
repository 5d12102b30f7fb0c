"""Waiting for outcomes: all required destinations, or the first that ends badly."""

import asyncio

import pytest

from engine.journal.entry import State
from engine.pipeline.inbound.outcomes import EntryOutcome, Outcomes

GOOD = EntryOutcome(State.DELIVERED, "updated")


async def test_all_destinations_have_to_settle() -> None:
    """The wait ends when the last of the destinations has delivered."""
    outcomes = Outcomes()
    future = outcomes.expect(7, frozenset({"one", "two"}))
    outcomes.settled(7, "one", GOOD)
    assert not future.done()
    outcomes.settled(7, "two", GOOD)
    assert await future == GOOD


async def test_a_bad_end_ends_the_wait_at_once() -> None:
    """A held delivery is told before the others have settled."""
    outcomes = Outcomes()
    future = outcomes.expect(7, frozenset({"one", "two"}))
    outcomes.settled(7, "one", EntryOutcome(State.HELD, "missing-required"))
    assert (await future).reason == "missing-required"


async def test_destinations_that_nobody_waits_for_do_not_count() -> None:
    """An optional destination neither ends the wait nor delays it."""
    outcomes = Outcomes()
    future = outcomes.expect(7, frozenset({"one"}))
    outcomes.settled(7, "optional", EntryOutcome(State.HELD, "x"))
    outcomes.settled(8, "one", GOOD)
    assert not future.done()
    outcomes.forget(7)
    with pytest.raises(asyncio.CancelledError):
        await future
