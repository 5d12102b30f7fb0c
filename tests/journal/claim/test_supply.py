"""What a destination asks for ahead comes to it by itself, in journal order, and never more than that."""

from collections.abc import Iterator

import pytest

from engine import fault
from engine.journal.entry import Claimed, State
from tests.journal.desk import NOW, Desk, settlement


class Supply:
    """A destination that takes what it has asked for; each part as entry numbers and how many more will come."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.parts: list[tuple[list[int], int]] = []

    async def ask(self, limit: int) -> list[tuple[list[int], int]]:
        """Ask for so many, and return what came since the last look."""
        await self._desk.journal.ask("d", limit, NOW, self._take)
        return self.take()

    def _take(self, claims: tuple[Claimed, ...], left: int) -> None:
        self.parts.append(([claim.seq for claim in claims], left))

    def take(self) -> list[tuple[list[int], int]]:
        """Return what came since the last look."""
        parts, self.parts = self.parts, []
        return parts


@pytest.fixture
def supply(desk: Desk) -> Iterator[Supply]:
    """Give a destination's side of the journal; no fault stays armed."""
    yield Supply(desk)
    fault._armed.clear()


async def test_what_is_there_comes_at_once_and_the_rest_as_it_arrives(desk: Desk, supply: Supply) -> None:
    """One is there, two come later, and the fourth is not asked for."""
    seqs = [await desk.record("1", ("s|1",))]
    assert await supply.ask(3) == [(seqs, 2)]
    seqs.append(await desk.record("2", ("s|2",)))
    assert supply.take() == [(seqs[1:], 1)]
    seqs.append(await desk.record("3", ("s|3",)))
    seqs.append(await desk.record("4", ("s|4",)))
    assert supply.take() == [(seqs[2:3], 0)]
    assert await desk.claimed() == seqs[3:]


async def test_what_a_settlement_lets_run_comes_too(desk: Desk, supply: Supply) -> None:
    """The next of a patient comes with the settlement of the one before it, and not earlier."""
    first, second = await desk.record("1", ("s|1",)), await desk.record("2", ("s|1",))
    assert await supply.ask(5) == [([first], 4)]
    await desk.journal.settle(settlement(first))
    assert supply.take() == [([second], 3)]


async def test_what_an_operator_lets_go_comes_too(desk: Desk, supply: Supply) -> None:
    """A held entry that is released is supplied without anybody asking."""
    seq = await desk.record("1", ("s|1",))
    await supply.ask(5)
    await desk.journal.settle(settlement(seq, State.HELD, reason="refused"))
    supply.take()
    await desk.release(seq, by="nina")
    assert supply.take() == [([seq], 3)]


async def test_what_is_held_for_want_of_more_comes_again_with_what_may_bring_it(desk: Desk, supply: Supply) -> None:
    """The held one is the first of its lane, so it comes and what is new waits behind it."""
    held = await desk.record("1", ("s|1",))
    await supply.ask(5)
    await desk.journal.settle(settlement(held, State.HELD, reason="missing-required", keep_lane=True))
    supply.take()
    await desk.record("2", ("s|1",))
    assert supply.take() == [([held], 3)]


async def test_an_older_one_comes_once_the_newer_one_that_it_waits_for_has_ended(desk: Desk, supply: Supply) -> None:
    """A replay finds a later delivery of its patient under way; nothing else tells that it may run."""
    older = await desk.record("1", ("s|1",))
    await supply.ask(5)
    await desk.journal.settle(settlement(older))
    newer = await desk.record("2", ("s|1",))
    supply.take()
    await desk.replay(older, by="nina", force=True)
    assert supply.take() == []
    await desk.journal.settle(settlement(newer))
    assert supply.take() == [([older], 2)]


async def test_of_lanes_that_become_one_the_oldest_comes_first(desk: Desk, supply: Supply) -> None:
    """A message is recorded together with the one that says that its patient is another one, who has something out."""
    first = await desk.record("1", ("s|1",))
    await supply.ask(5)
    supply.take()
    later, merge = await desk.together(
        [
            desk.journal.record(desk.entry("2", ("s|2",))),
            desk.journal.record(desk.entry("3", ("s|1",), ("s|2",), unite=True)),
        ]
    )
    assert supply.take() == []
    await desk.journal.settle(settlement(first))
    assert supply.take() == [([later.seq], 3)]
    await desk.journal.settle(settlement(later.seq))
    assert supply.take() == [([merge.seq], 2)]


async def test_what_comes_before_its_lane_becomes_another_in_one_transaction_is_not_forgotten(
    desk: Desk, supply: Supply
) -> None:
    """With nobody ahead the first of the two comes at once."""
    await supply.ask(5)
    supply.take()
    first, _merge = await desk.together(
        [
            desk.journal.record(desk.entry("1", ("s|2",))),
            desk.journal.record(desk.entry("2", ("s|1",), ("s|2",), unite=True)),
        ]
    )
    assert supply.take() == [([first.seq], 4)]


async def test_a_transaction_that_is_undone_and_made_again_hands_out_each_once(desk: Desk, supply: Supply) -> None:
    """It is struck once, after its entries were written; then each of them gets a transaction of its own."""
    await supply.ask(5)
    supply.take()
    fault.arm("F03:raise")
    calls = [desk.journal.record(desk.entry(str(number), (f"s|{number}",))) for number in range(2)]
    told = await desk.together(calls)
    assert supply.take() == [([told[0].seq], 4), ([told[1].seq], 3)]


async def test_of_several_in_one_transaction_no_more_come_than_were_asked_for(desk: Desk, supply: Supply) -> None:
    """The others are there for whoever asks next."""
    await supply.ask(2)
    supply.take()
    told = await desk.together([desk.journal.record(desk.entry(str(n), (f"s|{n}",))) for n in range(3)])
    assert supply.take() == [([one.seq for one in told[:2]], 0)]
    assert await desk.claimed() == [told[2].seq]


async def test_what_comes_with_a_giving_back_is_not_lost(desk: Desk, supply: Supply) -> None:
    """Something new is recorded in the transaction in which the destination wants nothing more: it can be claimed."""
    first = await desk.record("1", ("s|1",))
    await supply.ask(5)
    told = await desk.together([desk.journal.record(desk.entry("2", ("s|2",))), desk.journal.give_back("d", [first])])
    assert await desk.claimed() == [first, told[0].seq]


async def test_nothing_comes_after_something_was_given_back(desk: Desk, supply: Supply) -> None:
    """Who gives back wants nothing more; what came is claimed by whoever asks next."""
    seq = await desk.record("1", ("s|1",))
    await supply.ask(5)
    await desk.journal.give_back("d", [seq])
    later = await desk.record("2", ("s|2",))
    supply.take()
    await desk.record("3", ("s|3",))
    assert supply.take() == []
    assert (await desk.claimed())[:2] == [seq, later]


async def test_asking_anew_takes_the_place_of_what_was_asked_for(desk: Desk, supply: Supply) -> None:
    """Two calls for one each are not a call for two."""
    assert await supply.ask(1) == [([], 1)]
    assert await supply.ask(1) == [([], 1)]
    seqs = [await desk.record(str(n), (f"s|{n}",)) for n in range(2)]
    assert supply.take() == [(seqs[:1], 0)]


async def test_a_transaction_that_is_undone_supplies_nothing(desk: Desk, supply: Supply) -> None:
    """What was to be supplied in it does not come, and is still asked for: the next one comes in its place."""
    await supply.ask(5)
    fault.arm("F08:raise")
    with pytest.raises(fault.InjectedFaultError):
        await desk.record("1", ("s|1",))
    assert supply.take() == []
    seq = await desk.record("2", ("s|1",))
    assert supply.take() == [([seq], 4)]


async def test_a_spoiled_transaction_supplies_nothing_twice(desk: Desk, supply: Supply) -> None:
    """What was to be supplied in a transaction that somebody else's error undid comes once all the same."""
    await supply.ask(5)

    def spoil(_connection: object) -> None:
        raise ValueError

    told = await desk.together([desk.journal.record(desk.entry("1", ("s|1",))), desk.journal.write(spoil)], errors=True)
    assert isinstance(told[1], ValueError)
    assert supply.take() == [([told[0].seq], 4)]
    assert await desk.claimed() == []
