"""Replay, release and discard, within the order of the lanes."""

import pytest

from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.journal.entry import State
from engine.journal.reading import Reader
from tests.journal.desk import Desk, settlement


async def delivered(desk: Desk, *names: str) -> list[int]:
    """Record and deliver messages of one patient."""
    seqs = []
    for name in names:
        seqs.append(await desk.record(name, ("s|1",)))
        await desk.claim()
        await desk.deliver(seqs[-1])
    return seqs


async def test_the_newest_entry_is_replayed_without_force(desk: Desk) -> None:
    """Nothing newer was applied; the claim says that it is a replay."""
    _first, last = await delivered(desk, "1", "2")
    assert await desk.journal.replay(last) == 1
    claimed = (await desk.claim())[0]
    assert (claimed.seq, claimed.replay, claimed.forced, claimed.attempts_made) == (last, True, False, 1)


async def test_an_overtaken_entry_is_replayed_only_by_force(desk: Desk) -> None:
    """Something newer was applied for this patient."""
    first, _last = await delivered(desk, "1", "2")
    with pytest.raises(ForbiddenMoveError, match="--force"):
        await desk.journal.replay(first)
    assert await desk.journal.replay(first, force=True) == 1
    assert (await desk.claim())[0].forced


async def test_a_replayed_entry_goes_before_what_is_ready(desk: Desk) -> None:
    """It has its old place in the lane; what was about to run waits for it."""
    (first,) = await delivered(desk, "1")
    ready = await desk.record("2", ("s|1",))
    await desk.journal.replay(first)
    assert await desk.claimed() == [first]
    await desk.journal.settle(settlement(first, reason="unchanged"))
    assert await desk.claimed() == [ready]


async def test_a_replayed_entry_waits_for_what_is_out(desk: Desk) -> None:
    """One patient never runs twice at a time."""
    (first,) = await delivered(desk, "1")
    out = await desk.record("2", ("s|1",))
    assert await desk.claimed() == [out]
    await desk.journal.replay(first)
    assert await desk.claimed() == []
    await desk.deliver(out)
    assert await desk.claimed() == [first]


async def test_what_is_under_way_is_not_replayed(desk: Desk) -> None:
    """Neither ready nor claimed entries."""
    seq = await desk.record("1", ("s|1",))
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.replay(seq)
    await desk.claim()
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.replay(seq)


async def test_what_was_refused_at_the_door_has_nothing_to_replay(desk: Desk) -> None:
    """Its message must be judged anew."""
    seq = await desk.record("1", state=State.REJECTED, reason="unsupported-event")
    with pytest.raises(ForbiddenMoveError, match="anew"):
        await desk.journal.replay(seq)


async def test_an_unknown_entry_is_named(desk: Desk) -> None:
    """There is no entry 99."""
    with pytest.raises(UnknownEntryError, match="99"):
        await desk.journal.replay(99)


async def test_only_the_named_destination_replays(desk: Desk) -> None:
    """The other one stays as it is."""
    seq = await desk.record("1", ("s|1",), destinations=("d", "e"))
    for name in ("d", "e"):
        await desk.claim(destination=name)
        await desk.deliver(seq, destination=name)
    assert await desk.journal.replay(seq, destinations=("e",)) == 1
    assert (await desk.claimed(), await desk.claimed(destination="e")) == ([], [seq])


async def test_a_released_entry_runs_again_before_what_waited(desk: Desk) -> None:
    """The lane goes on in its old order."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="refused"))
    assert await desk.journal.release(first, by="me") == 1
    assert await desk.claimed() == [first]
    await desk.deliver(first)
    assert await desk.claimed() == [second]


async def test_a_held_entry_that_was_overtaken_is_released_only_by_force(desk: Desk) -> None:
    """With `on_held: continue` newer data may have been applied."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="refused", keep_lane=False))
    await desk.claim()
    await desk.deliver(second)
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.release(first)
    assert await desk.journal.release(first, force=True) == 1


async def test_only_what_is_held_is_released(desk: Desk) -> None:
    """Everything else needs a replay."""
    seq = await desk.record("1", ("s|1",))
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.release(seq)


async def test_a_discard_names_who_and_why(desk: Desk) -> None:
    """The entry ends for good and its lane flows on."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    assert await desk.journal.discard(first, "sent by mistake", "ana") == 1
    assert await desk.claimed() == [second]
    with Reader(desk.folder) as reader:
        view = reader.show(first)
    assert (view.row.state, view.row.reason, view.deliveries[0].by) == (State.DISCARDED, "sent by mistake", "ana")


async def test_what_was_held_at_the_door_can_be_discarded(desk: Desk) -> None:
    """An undecodable message that waits for a person."""
    seq = await desk.record("1", state=State.HELD, reason="undecodable")
    await desk.journal.discard(seq, "test", "ana")
    with Reader(desk.folder) as reader:
        assert reader.show(seq).row.state is State.DISCARDED


@pytest.mark.parametrize("out", [True, False])
async def test_what_is_being_delivered_or_has_ended_is_not_discarded(desk: Desk, out: bool) -> None:
    """A discard is for what is unfinished and at rest."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    if not out:
        await desk.deliver(seq)
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.discard(seq, "test", "me")
