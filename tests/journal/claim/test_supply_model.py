"""Supply by a plain rule: while a destination waits for more, nothing that it could have is left in the journal."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import AdtEngineError
from engine.journal.entry import Claimed, State
from tests.journal.desk import NOW, Desk, entry, open_desk, settlement
from tests.memory_folder import folder_in_memory
from tests.tiers import trials

KEYS = ("s|1", "s|2", "s|3")
MOST = 1_000  # entries, and numbers that transactions which were undone had taken
ENDS = (
    {"state": State.DELIVERED},
    {"state": State.HELD, "reason": "missing-required", "keep_lane": True},
    {"state": State.HELD, "reason": "refused", "keep_lane": False},
    {"state": State.RECEIVED},
    {"state": State.RECEIVED, "retry_at": NOW + timedelta(hours=1)},
)
RECORD = st.tuples(st.just("record"), st.lists(st.sampled_from(KEYS), min_size=1, max_size=2), st.booleans())
SETTLE = st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from(ENDS))
RARE = st.one_of(
    st.tuples(st.just("ask"), st.integers(1, 12)),
    st.tuples(st.sampled_from(("release", "replay", "replay", "give back")), st.integers(0, 5)),
    st.tuples(st.just("spoil")),
)
BATCHES = st.lists(st.one_of(RECORD, SETTLE, RARE), min_size=1, max_size=4)


class Destination:
    """One that takes what it gets: what is out there, and how many more it was told will come."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.out: list[int] = []
        self.faults: list[str] = []
        self.left = 0
        self.count = 0

    def _take(self, claims: tuple[Claimed, ...], left: int) -> None:
        self.faults += [f"{claim.seq} was handed out twice" for claim in claims if claim.seq in self.out]
        self.faults += ["more was handed out than was asked for"] * (left < 0)
        self.out += [claim.seq for claim in claims]
        self.left = left

    async def _give_back(self, seq: int) -> None:
        await self._desk.journal.give_back("d", [seq])
        self.left = 0

    def call(self, step: tuple[Any, ...]) -> Awaitable[Any]:
        """Return a call that carries a step out."""
        journal = self._desk.journal
        call: Awaitable[Any] | None = None
        match step:
            case ("record", keys, unite):
                self.count += 1
                patients = tuple((key,) for key in dict.fromkeys(keys))
                call = journal.record(entry(str(self.count), *patients, unite=unite))
            case ("settle", place, end) if self.out:
                call = journal.settle(settlement(self.out.pop(place % len(self.out)), **end))
            case ("ask", limit):
                call = journal.ask("d", limit, NOW, self._take)
            case ("release", place):
                call = self._desk.release(place, by="nina")
            case ("replay", place):
                call = self._desk.replay(place, by="nina", force=True)
            case ("give back", place) if self.out:
                call = self._give_back(self.out.pop(place % len(self.out)))
            case ("spoil",):
                call = journal.write(_spoil)
        return call or asyncio.sleep(0)


def _spoil(_connection: object) -> None:
    raise ValueError


@pytest.mark.property
@settings(max_examples=trials(100))
@given(batches=st.lists(BATCHES, min_size=1, max_size=30))
def test_nothing_that_may_run_waits_for_a_destination_that_waits_for_it(batches: list[list[tuple[Any, ...]]]) -> None:
    """Whatever meets in a transaction: each goes out once, and to whoever waits all that may run has come."""

    async def run(folder: Path) -> None:
        async with open_desk(folder) as desk:
            destination = Destination(desk)
            await destination.call(("ask", 12))
            for batch in batches:
                ended = await desk.together([destination.call(one) for one in batch], errors=True)
                unexpected = [one for one in ended if isinstance(one, BaseException)]
                assert all(isinstance(one, (ValueError, AdtEngineError)) for one in unexpected), unexpected
                numbers = range(1, MOST)
                out = await desk.journal.look(
                    lambda context, all_=numbers: [n for n in all_ if context.claims.is_out(n, "d")]
                )
                assert (out, destination.faults) == (sorted(destination.out), [])
                if destination.left:
                    assert await desk.claimed() == []

    with folder_in_memory() as folder:
        asyncio.run(run(Path(folder)))
