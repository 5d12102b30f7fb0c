"""Group commit: what waits for others shares their commit, and what somebody waits for does not wait."""

import asyncio

import pytest

from engine.journal.entry import State
from engine.journal.read.reading import Reader
from engine.journal.write import group_commit
from tests.journal.desk import Desk, Opener, settlement

SOON = 10  # seconds, in place of an hour


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let settlements wait for others as long as it takes."""
    monkeypatch.setattr(group_commit, "TOGETHER_SECONDS", 3600.0)


async def _under_way(desk: Desk, count: int) -> list[int]:
    """Record and claim the messages of so many patients."""
    await desk.together(desk.journal.record(desk.entry(str(n), (f"s|{n}",))) for n in range(count))
    return await desk.claimed()


@pytest.mark.usefixtures("patient")
async def test_settlements_that_may_wait_are_one_commit(desk: Desk) -> None:
    """The last of a full number takes all the others along, though each came in a turn of its own."""
    seqs = await _under_way(desk, group_commit.TOGETHER)
    before, _jobs = desk.journal.counts
    waiting = []
    for seq in seqs:
        waiting.append(asyncio.ensure_future(desk.journal.settle(settlement(seq), may_wait=True)))
        await asyncio.sleep(0)
    assert await asyncio.gather(*waiting) == [0] * len(seqs)
    assert desk.journal.counts[0] == before + 1


async def test_a_settlement_that_waits_in_vain_is_written_alone(desk: Desk) -> None:
    """Nothing else comes: it is written all the same."""
    (seq,) = await _under_way(desk, 1)
    assert await desk.journal.settle(settlement(seq), may_wait=True) == 0


@pytest.mark.usefixtures("patient")
async def test_while_others_wait_in_its_lane_no_settlement_does(desk: Desk) -> None:
    """After one that let another delivery run, the next is written at once, until one lets nothing run."""
    seqs = [await desk.record(str(n), ("s|1",)) for n in range(3)]
    assert await desk.claimed() == seqs[:1]
    assert await desk.journal.settle(settlement(seqs[0])) == 1
    assert await desk.claimed() == seqs[1:2]
    async with asyncio.timeout(SOON):
        assert await desk.journal.settle(settlement(seqs[1]), may_wait=True) == 1


@pytest.mark.usefixtures("patient")
async def test_what_waits_for_others_is_written_at_the_end(opened: Opener) -> None:
    """A journal that is closed keeps the settlements that it was given."""
    async with opened() as desk:
        (seq,) = await _under_way(desk, 1)
        waiting = asyncio.ensure_future(desk.journal.settle(settlement(seq), may_wait=True))
        await asyncio.sleep(0)
    async with asyncio.timeout(SOON):
        assert await waiting == 0
    with Reader(desk.folder) as reader:
        assert reader.show(seq).deliveries[0].state is State.DELIVERED
