"""What delivery is reminded of: the newest event time of every lane, whichever entries it came from."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from engine.fhir.plan import Plan
from engine.pipeline.outbound.memory import DestinationMemory
from tests.journal.desk import NOW, Desk, open_desk, settlement

SOURCE = "REG|RVB"


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Give an open journal."""
    async with open_desk(tmp_path) as desk:
        yield desk


def plan(hours: int) -> Plan:
    """Return a plan of an event so many hours after NOW."""
    return Plan("A08", SOURCE, NOW + timedelta(hours=hours), 14, ())


async def applied(desk: Desk, memory: DestinationMemory, lanes: tuple[int, ...], at: datetime) -> None:
    """Deliver an entry of these lanes, as a carrier does."""
    seq = await desk.record(str(at), *(((f"s|{lane}",)) for lane in lanes))
    await desk.claim()
    hours = round((at - NOW).total_seconds() / 3600)
    memory.applied(lanes, plan(hours))
    await desk.journal.settle(settlement(seq, source=SOURCE, applied_at=at))


async def test_an_event_of_two_patients_is_newer_for_each_of_them(desk: Desk) -> None:
    """A link or a move is applied to both: an older event of one of them alone is stale afterwards."""
    memory = DestinationMemory("d", desk.journal)
    await applied(desk, memory, (1,), NOW + timedelta(hours=1))
    assert not await memory.is_stale((1,), plan(2))
    await applied(desk, memory, (1, 2), NOW + timedelta(hours=5))
    assert await memory.is_stale((1,), plan(3))
    assert await memory.is_stale((2,), plan(3))
    assert await memory.is_stale((1, 2), plan(3))
    assert not await memory.is_stale((1,), plan(6))
    assert not await memory.is_stale((3,), plan(0))


async def test_a_merge_hands_its_newest_event_on(desk: Desk) -> None:
    """What was newest for either patient is newest for both from then on, over a restart too."""
    await applied(desk, DestinationMemory("d", desk.journal), (1,), NOW + timedelta(hours=1))
    await applied(desk, DestinationMemory("d", desk.journal), (2,), NOW + timedelta(hours=5))
    merge = await desk.record("merge", ("s|1",), ("s|2",), unite=True)
    (claimed,) = await desk.claim()
    assert claimed.seq == merge
    assert await DestinationMemory("d", desk.journal).is_stale(claimed.lanes, plan(3))
    assert not await DestinationMemory("d", desk.journal).is_stale(claimed.lanes, plan(6))


async def test_what_was_forgotten_is_not_taken_for_the_newest(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old event applied by force, after its lane left the memory, hides nothing that is newer in the journal."""
    monkeypatch.setattr("engine.pipeline.outbound.memory.REMEMBERED", 1)
    memory = DestinationMemory("d", desk.journal)
    await applied(desk, memory, (1,), NOW + timedelta(hours=5))
    assert await memory.is_stale((1,), plan(3))
    assert not await memory.is_stale((2,), plan(3))
    await applied(desk, memory, (1,), NOW + timedelta(hours=2))
    assert await memory.is_stale((1,), plan(3))
