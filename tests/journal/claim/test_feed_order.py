"""The lane FEED: what one destination gets in the order in which it came in, whomever it is about."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import AdtEngineError
from engine.journal.entry import Claimed, State
from engine.journal.write import bulk_replay
from engine.journal.write.bulk_replay import ReplayItem, Run, RunKind, RunState
from tests.journal.desk import NOW, Desk, entry, open_desk, settlement
from tests.memory_folder import folder_in_memory
from tests.tiers import trials

FEED = frozenset({"d"})


async def run(desk: Desk, limit: int = 10, **given: Any) -> list[int]:
    """Claim what one process may send, one after the other; return the numbers."""
    return [one.seq for one in await desk.journal.claim("d", limit, given.pop("now", NOW), run=True)]


async def record(desk: Desk, control_id: str, patient: str, **given: Any) -> int:
    """Record an entry in the order of the feed."""
    return await desk.record(control_id, (patient,), in_feed_order=FEED, **given)


async def test_all_go_out_one_after_the_other(desk: Desk) -> None:
    """Whomever they are about; what is held holds all behind it, until a person lets it go or ends it."""
    seqs = [await record(desk, str(at), f"s|{at % 2}") for at in range(6)]
    assert await run(desk, 4) == seqs[:4]
    await desk.journal.settle(settlement(seqs[0]))
    await desk.journal.settle(settlement(seqs[1], State.HELD, reason="receiver-refused", keep_lane=True))
    await desk.journal.give_back("d", seqs[2:4])
    assert await run(desk) == []
    assert await desk.release(seqs[1]) == 1
    assert await run(desk) == seqs[1:]


async def test_what_waited_for_its_patient_before_the_order_was_of_the_feed(desk: Desk) -> None:
    """Nothing is left behind: it goes out before what is about the same patient and came later."""
    early = [await desk.record("1", ("s|1",)), await desk.record("2", ("s|1",))]
    late = [await record(desk, "3", "s|1"), await record(desk, "4", "s|2")]
    order = []
    while claims := await run(desk):
        order += claims
        for seq in claims:
            await desk.journal.settle(settlement(seq))
    assert sorted(order) == early + late
    assert [seq for seq in order if seq != late[1]] == [*early, late[0]]


async def test_a_replay_of_what_was_delivered_before_the_order_was_of_the_feed(desk: Desk) -> None:
    """It goes out next, as it would have before."""
    seq = await desk.record("1", ("s|1",))
    assert await desk.claimed() == [seq]
    await desk.deliver(seq)
    behind = await record(desk, "2", "s|2")
    assert await desk.replay(seq, in_feed_order=FEED) == 1
    assert await run(desk) == [seq, behind]


async def test_a_bulk_replay_gives_it_to_a_relay_that_never_had_it(desk: Desk) -> None:
    """What a run gives stands in the order of the feed as what came in does."""
    seqs = [await desk.record(str(at), (f"s|{at}",), destinations=("other",)) for at in range(3)]
    for one in await desk.journal.claim("other", 10, NOW):
        await desk.deliver(one.seq, destination="other")
    number = await desk.journal.write(lambda connection: bulk_replay.begin(connection, _run(0)))
    items = [ReplayItem(seq, give=("d",), in_feed_order=FEED) for seq in seqs]
    await desk.journal.act(lambda context: bulk_replay.take_up(context, _run(number), items, NOW))
    assert await run(desk, 2) == seqs[:2]
    lanes = await desk.journal.read(
        lambda connection: connection.execute("SELECT lanes FROM delivery WHERE destination = 'd'").fetchall()
    )
    assert all("[0," in lane for (lane,) in lanes)


def _run(number: int) -> Run:
    return Run(
        number, RunKind.REPLAY, "nina", {}, "d", force=False, rate=5.0, state=RunState.RUNNING, started_at=NOW,
        ended_at=None, total=3, counts={}, bound=3,
    )  # fmt: skip


ENDS = (
    {"state": State.DELIVERED},
    {"state": State.DELIVERED},
    {"state": State.HELD, "reason": "receiver-refused", "keep_lane": True},
    {"state": State.HELD, "reason": "receiver-refused", "keep_lane": False},
    {"state": State.RECEIVED, "retry_at": NOW - timedelta(seconds=1)},
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(0, 2), st.booleans(), st.booleans()),
        st.tuples(st.just("send"), st.sampled_from(ENDS)),
        st.tuples(st.just("ask"), st.integers(1, 5)),
        st.tuples(st.sampled_from(("release", "replay", "discard")), st.integers(0, 5)),
    ),
    max_size=40,
)


class Sender:
    """A relay that sends what it has claimed, one after the other, as dispatch does; `sent` are the numbers."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ready: list[Claimed] = []
        self.sent: list[int] = []
        self.count = 0

    def _take(self, claims: tuple[Claimed, ...], _left: int) -> None:
        self._ready += claims

    async def do(self, step: tuple[Any, ...]) -> None:
        """Carry a step out."""
        journal, act = self._desk.journal, ""
        match step:
            case ("record", patient, unite, feed):
                self.count += 1
                groups = ((f"s|{patient}",), ("s|9",)) if unite else ((f"s|{patient}",),)
                order = FEED if feed else frozenset()
                await journal.record(entry(str(self.count), *groups, unite=unite, in_feed_order=order))
            case ("ask", limit):
                await journal.ask("d", limit, NOW, self._take, run=True)
            case ("send", end) if self._ready:
                one = self._ready.pop(0)
                self.sent.append(one.seq)
                await journal.settle(settlement(one.seq, **end))
                if end["state"] is not State.DELIVERED:
                    back, self._ready = [each.seq for each in self._ready], []
                    await journal.give_back("d", back)
            case (act, place) if act in {"release", "replay", "discard"} and self.count:
                seq = 1 + place % self.count
                given = {"reason": "", "by": "nina"} if act == "discard" else {"by": "nina", "force": True}
                await getattr(self._desk, act)(seq, **given)

    async def drain(self) -> None:
        """Deliver until nothing is left but what is held and what waits behind it."""
        while True:
            await self.do(("ask", 5))
            if not self._ready:
                return
            while self._ready:
                await self.do(("send", {"state": State.DELIVERED}))


@pytest.mark.property
@settings(max_examples=trials(100))
@given(steps=STEPS)
def test_nothing_is_left_behind_and_the_feed_stays_in_order(steps: list[tuple[Any, ...]]) -> None:
    """Whatever befalls it: what is neither held nor behind such a one is sent; without acts each is sent in order."""

    async def carry(folder: Path) -> None:
        async with open_desk(folder) as desk:
            sender, errors = Sender(desk), 0
            for step in steps:
                try:
                    await sender.do(step)
                except AdtEngineError:
                    errors += 1
            await sender.drain()
            if not {"release", "replay", "discard"} & {step[0] for step in steps}:
                assert_in_order(steps, sender.sent)
            states = await desk.journal.read(
                lambda connection: connection.execute("SELECT state FROM delivery").fetchall()
            )
            left = {state for (state,) in states} - {State.DELIVERED, State.DISCARDED}
            assert left in (set(), {State.HELD}, {State.HELD, State.WAITING})

    def assert_in_order(steps: list[tuple[Any, ...]], sent: list[int]) -> None:
        feed = [step[3] for step in steps if step[0] == "record"]
        firsts = [seq for seq in dict.fromkeys(sent) if feed[seq - 1]]
        assert firsts == sorted(firsts)

    with folder_in_memory() as folder:
        asyncio.run(carry(Path(folder)))
