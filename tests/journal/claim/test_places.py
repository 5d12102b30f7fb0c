"""Lanes, one turn at a time: what joins them, what leaves them apart, and turns that random histories seldom take."""

from datetime import timedelta

from engine.journal.entry import State
from engine.journal.read.reading import Reader
from engine.journal.state import memory
from tests.journal.desk import LATE, NOW, Desk, settlement


async def test_entries_of_one_patient_run_one_after_the_other(desk: Desk) -> None:
    """The second waits for the first, and names it."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    assert await desk.claimed() == [first]
    with Reader(desk.folder) as reader:
        waiting = reader.show(second).deliveries[0]
    assert (waiting.state, waiting.waits_for) == (State.WAITING, first)
    assert await desk.deliver(first) == 1
    assert await desk.claimed() == [second]


async def test_patients_do_not_wait_for_each_other(desk: Desk) -> None:
    """Two patients are two lanes."""
    seqs = [await desk.record(str(number), (f"s|{number}",)) for number in range(3)]
    assert await desk.claimed() == seqs


async def test_identities_of_one_patient_share_a_lane_from_then_on(desk: Desk) -> None:
    """A message that lists two numbers makes them one patient."""
    both = await desk.record("1", ("s|1", "t|9"))
    later = await desk.record("2", ("t|9",))
    assert await desk.claimed() == [both]
    await desk.deliver(both)
    assert await desk.claimed() == [later]


async def test_a_merge_waits_for_both_and_what_follows_waits_for_it(desk: Desk) -> None:
    """An A40 runs after all that either number had before; from its receipt on they are one lane."""
    old = await desk.record("1", ("s|old",))
    survivor = await desk.record("2", ("s|new",))
    merge = await desk.record("3", ("s|new",), ("s|old",), unite=True)
    after = await desk.record("4", ("s|old",))
    for seq in (old, survivor, merge, after):
        assert await desk.claimed() == [seq]
        await desk.deliver(seq)


async def test_a_move_waits_for_both_patients_and_leaves_them_apart(desk: Desk) -> None:
    """An A43 stands in two lanes, which stay two."""
    move = await desk.record("1", ("s|1",), ("s|2",))
    one = await desk.record("2", ("s|1",))
    two = await desk.record("3", ("s|2",))
    assert await desk.claimed() == [move]
    assert await desk.deliver(move) == 2
    assert await desk.claimed() == [one, two]


async def test_a_merge_that_is_refused_joins_nothing(desk: Desk) -> None:
    """What does not run unites no lanes."""
    await desk.record("1", ("s|1",), ("s|2",), unite=True, state=State.REJECTED, reason="self-merge")
    one = await desk.record("2", ("s|1",))
    two = await desk.record("3", ("s|2",))
    assert await desk.claimed() == [one, two]


async def test_a_merge_for_one_destination_keeps_order_at_another(desk: Desk) -> None:
    """What the old number still has open elsewhere comes before what follows the merge there."""
    old = await desk.record("1", ("s|old",), destinations=("e",))
    merge = await desk.record("2", ("s|new",), ("s|old",), unite=True)
    after = await desk.record("3", ("s|old",), destinations=("e",))
    assert await desk.claimed(destination="e") == [old]
    assert await desk.claimed() == [merge]
    await desk.deliver(old, destination="e")
    assert await desk.claimed(destination="e") == [after]


async def test_what_is_out_holds_up_an_older_entry_when_lanes_are_joined(desk: Desk) -> None:
    """The head of united lanes is not claimed while a younger one of the same patient is being delivered."""
    older = await desk.record("1", ("s|1",))
    younger = await desk.record("2", ("s|2",))
    assert await desk.claimed(limit=1) == [older]
    await desk.journal.settle(settlement(older, State.RECEIVED, retry_at=NOW + timedelta(minutes=1)))
    assert await desk.claimed() == [younger]
    await desk.record("3", ("s|1",), ("s|2",), unite=True)
    assert await desk.claimed(now=LATE) == []
    await desk.deliver(younger)
    assert await desk.claimed(now=LATE) == [older]


async def test_lanes_joined_within_one_transaction_keep_their_order(desk: Desk) -> None:
    """Entries and the merge that unites their lanes may be committed together."""
    journal = desk.journal
    from_here = [("1", (("s|1",),), False), ("2", (("s|2",),), False), ("3", (("s|1",), ("s|2",)), True)]
    pending = [journal.record(desk.entry(name, *groups, unite=unite)) for name, groups, unite in from_here]
    seqs = [recorded.seq for recorded in await desk.together(pending)]
    assert await desk.claimed() == [seqs[0]]
    await desk.deliver(seqs[0])
    assert await desk.claimed() == [seqs[1]]


async def test_the_newest_event_time_follows_the_lanes_when_they_are_joined(desk: Desk) -> None:
    """After a merge the survivor's lane knows what was applied under either number."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|2",))
    await desk.claim()
    await desk.journal.settle(settlement(first, applied_at=NOW, source="A|B"))
    await desk.journal.settle(settlement(second, applied_at=NOW + timedelta(hours=2), source="A|B"))
    merge = await desk.record("3", ("s|1",), ("s|2",), unite=True)
    claimed = (await desk.claim())[0]
    assert claimed.seq == merge
    assert len(claimed.lanes) == 1
    assert await desk.last_applied("d", claimed.lanes, "A|B") == NOW + timedelta(hours=2)
    assert await desk.last_applied("d", claimed.lanes, "other") is None


async def test_a_number_that_ever_more_patients_share_is_flagged(desk: Desk) -> None:
    """More than 50 identities in one lane are a dummy number."""
    flags = []
    for number in range(52):
        recorded = await desk.journal.record(desk.entry(str(number), ("s|dummy", f"s|{number}")))
        flags.append("lane-crowded" in recorded.flags)
    assert not any(flags[:49])
    assert flags[49:] == [True] * 3  # the dummy and 50 others make 51


async def test_an_entry_without_identities_waits_for_nobody(desk: Desk) -> None:
    """No identity, no lane."""
    seqs = [await desk.record("1"), await desk.record("2")]
    assert await desk.claimed() == seqs


async def test_what_lacks_demographics_is_tried_again_when_its_lane_hears_more(desk: Desk) -> None:
    """Held for want of demographics, not for another reason; what waits behind it in its own lane can be read."""
    first, other = await desk.record("1", ("s|1",)), await desk.record("2", ("s|2",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="missing-required"))
    await desk.journal.settle(settlement(other, State.HELD, reason="would-merge"))
    assert await desk.claimed() == []
    await desk.record("3", ("s|2",))
    assert await desk.claimed() == []
    await desk.record("4", ("s|1",))
    (again,) = await desk.claim()
    assert again.seq == first
    (behind,) = await desk.remembered(memory.behind, "d", again.lanes, first, 20)
    assert b"|4|" in behind[1]


async def test_every_destination_has_lanes_of_its_own(desk: Desk) -> None:
    """An entry that is held at one destination holds nothing up at another."""
    first = await desk.record("1", ("s|1",), destinations=("d", "e"))
    second = await desk.record("2", ("s|1",), destinations=("d", "e"))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="missing-required"))
    assert await desk.claimed() == []
    assert await desk.claimed(destination="e") == [first]
    await desk.deliver(first, destination="e")
    assert await desk.claimed(destination="e") == [second]
