"""Replay, release and discard, within the order of the lanes."""

import pytest

from engine.errors import ForbiddenMoveError, UnknownEntryError
from engine.journal.entry import KnownIdentity, State
from engine.journal.read.reading import Filters, Reader
from engine.journal.state import memory
from engine.journal.state.memory import choose
from engine.journal.write.entry_lookup import OperationRequest
from tests.journal.desk import LATE, NOW, Desk, entry, settlement


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
    assert await desk.replay(last) == 1
    claimed = (await desk.claim())[0]
    assert (claimed.seq, claimed.replay, claimed.forced, claimed.attempts_made) == (last, True, False, 1)


async def test_an_overtaken_entry_is_replayed_only_by_force(desk: Desk) -> None:
    """Something newer was applied for this patient."""
    first, _last = await delivered(desk, "1", "2")
    with pytest.raises(ForbiddenMoveError, match="--force"):
        await desk.replay(first)
    assert await desk.replay(first, force=True) == 1
    assert (await desk.claim())[0].forced


async def test_a_replayed_entry_goes_before_what_is_ready(desk: Desk) -> None:
    """It has its old place in the lane; what was about to run waits for it."""
    (first,) = await delivered(desk, "1")
    ready = await desk.record("2", ("s|1",))
    await desk.replay(first)
    assert await desk.claimed() == [first]
    await desk.journal.settle(settlement(first, reason="unchanged"))
    assert await desk.claimed() == [ready]


async def test_a_replayed_entry_waits_for_what_is_out(desk: Desk) -> None:
    """What is newer and under way would be gone over: only by force, and one patient never runs twice at a time."""
    (first,) = await delivered(desk, "1")
    out = await desk.record("2", ("s|1",))
    assert await desk.claimed() == [out]
    with pytest.raises(ForbiddenMoveError, match="is being delivered"):
        await desk.replay(first)
    await desk.replay(first, force=True)
    assert await desk.claimed() == []
    await desk.deliver(out)
    assert await desk.claimed() == [first]


async def test_what_is_under_way_is_not_replayed(desk: Desk) -> None:
    """Neither ready nor claimed entries."""
    seq = await desk.record("1", ("s|1",))
    with pytest.raises(ForbiddenMoveError):
        await desk.replay(seq)
    await desk.claim()
    with pytest.raises(ForbiddenMoveError):
        await desk.replay(seq)


async def test_what_was_refused_at_the_door_has_nothing_to_replay(desk: Desk) -> None:
    """Its message must be judged anew."""
    seq = await desk.record("1", state=State.REJECTED, reason="unsupported-event")
    with pytest.raises(ForbiddenMoveError, match="anew"):
        await desk.replay(seq)


async def test_an_unknown_entry_is_named(desk: Desk) -> None:
    """There is no entry 99."""
    with pytest.raises(UnknownEntryError, match="99"):
        await desk.replay(99)


async def test_only_the_named_destination_replays(desk: Desk) -> None:
    """The other one stays as it is."""
    seq = await desk.record("1", ("s|1",), destinations=("d", "e"))
    for name in ("d", "e"):
        await desk.claim(destination=name)
        await desk.deliver(seq, destination=name)
    assert await desk.replay(seq, destinations=("e",)) == 1
    assert (await desk.claimed(), await desk.claimed(destination="e")) == ([], [seq])


async def test_a_released_entry_runs_again_before_what_waited(desk: Desk) -> None:
    """The lane goes on in its old order."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="refused"))
    assert await desk.release(first, by="me") == 1
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
        await desk.release(first)
    assert await desk.release(first, force=True) == 1


async def test_only_what_is_held_is_released(desk: Desk) -> None:
    """Everything else needs a replay."""
    seq = await desk.record("1", ("s|1",))
    with pytest.raises(ForbiddenMoveError):
        await desk.release(seq)


async def test_a_discard_names_who_and_why(desk: Desk) -> None:
    """The entry ends for good and its lane flows on."""
    first = await desk.record("1", ("s|1",))
    second = await desk.record("2", ("s|1",))
    assert await desk.discard(first, "sent by mistake", "ana") == 1
    assert await desk.claimed() == [second]
    with Reader(desk.folder) as reader:
        view = reader.show(first)
    assert (view.row.state, view.row.reason, view.deliveries[0].by) == (State.DISCARDED, "sent by mistake", "ana")


async def test_what_was_held_at_the_door_can_be_discarded(desk: Desk) -> None:
    """An undecodable message that waits for a person."""
    seq = await desk.record("1", state=State.HELD, reason="undecodable")
    await desk.discard(seq, "test", "ana")
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
        await desk.discard(seq, "test", "me")


async def test_a_replay_keeps_how_it_stood_before(desk: Desk) -> None:
    """Who, when, in which state and under which mapping: the delivery itself forgets that."""
    (seq,) = await delivered(desk, "1")
    await desk.replay(seq, by="ana", at=NOW)
    rows = await desk.journal.read(
        lambda connection: connection.execute("SELECT seq, destination, act, by, state FROM replayed").fetchall()
    )
    assert rows == [(seq, "d", "replay", "ana", "delivered")]


async def test_a_destination_that_is_new_is_given_older_entries_in_their_places(desk: Desk) -> None:
    """They go before what came for it since, unless that was applied already."""
    first, second = await delivered(desk, "1", "2")
    third = await desk.record("3", ("s|1",), destinations=("d", "e"))
    with pytest.raises(ForbiddenMoveError, match="anew"):
        await desk.replay(first, destinations=("e",))
    for seq in (second, first):
        assert await desk.replay(seq, destinations=("e",), give=("e",)) == 1
    assert await desk.claimed(destination="e") == [first]
    await desk.journal.settle(settlement(first, destination="e"))
    assert await desk.claimed(destination="e") == [second]
    await desk.journal.settle(settlement(second, destination="e"))
    assert await desk.claimed(destination="e") == [third]
    await desk.journal.settle(settlement(third, destination="e"))
    late = await desk.record("4", ("s|2",))
    after = await desk.record("5", ("s|2",), destinations=("e",))
    await desk.claim(destination="e")
    await desk.journal.settle(settlement(after, destination="e"))
    await desk.claim()
    await desk.deliver(late)
    with pytest.raises(ForbiddenMoveError, match="--force"):
        await desk.replay(late, destinations=("e",), give=("e",))


async def test_a_merge_is_given_to_a_destination_only_where_it_has_one_of_the_two(desk: Desk) -> None:
    """By what is on its way there, or was applied there; what was merged counts as one."""
    merge = await desk.record("1", ("s|1", "s|2"), destinations=("d",))
    with pytest.raises(ForbiddenMoveError, match="filters send it elsewhere"):
        await desk.replay(merge, destinations=("e",), where_known=("e",))
    await desk.claim()
    await desk.deliver(merge)
    other = await desk.record("2", ("s|2",), destinations=("e",))
    assert await desk.claimed(destination="e") == [other]
    await desk.journal.settle(settlement(other, destination="e"))
    assert await desk.replay(merge, destinations=("e",), where_known=("e",), force=True) == 1
    assert await desk.claimed(destination="e") == [merge]


async def test_what_is_judged_anew_goes_where_one_of_its_patients_is(desk: Desk) -> None:
    """As if it came in now: beside where it is sent, to those that have it, and to no others."""
    refused = await desk.record("1", ("s|1", "s|2"), state=State.REJECTED, reason="merge-not-allowed")
    await desk.record("2", ("s|2",), destinations=("e",))
    judged = entry("1", ("s|1", "s|2"), destinations=("d",), where_known=("e", "f"))
    asked = OperationRequest("ana")
    assert await desk.journal.act(lambda context: context.operations.admit(refused, judged, asked)) == 2
    sql = "SELECT destination FROM delivery WHERE seq = 1 ORDER BY destination"
    assert await desk.journal.read(lambda one: one.execute(sql).fetchall()) == [("d",), ("e",)]


async def test_what_was_discarded_everywhere_fills_no_destination(desk: Desk) -> None:
    """Somebody ended it."""
    seq = await desk.record("1", ("s|1",))
    await desk.discard(seq, "test", "ana")
    with pytest.raises(ForbiddenMoveError, match="discarded"):
        await desk.replay(seq, destinations=("e",), give=("e",))


@pytest.mark.parametrize("reason", ["stale", "merge-limit"])
async def test_what_was_held_for_a_limit_may_go_on_once_it_is_released(desk: Desk, reason: str) -> None:
    """The same judgement would hold it again."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(seq, State.HELD, reason=reason))
    await desk.release(seq)
    assert (await desk.claim())[0].forced


async def test_a_retry_does_not_wait_for_its_time(desk: Desk) -> None:
    """What is to be tried later is tried now; what neither waits nor is held is refused."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(seq, State.RECEIVED, retry_at=LATE))
    assert await desk.claimed() == []
    assert await desk.journal.act(lambda context: context.operations.retry(seq, OperationRequest("ana", NOW))) == 1
    assert await desk.claimed() == [seq]
    await desk.journal.settle(settlement(seq, State.HELD, reason="refused"))
    assert await desk.journal.act(lambda context: context.operations.retry(seq, OperationRequest("ana", NOW))) == 1
    assert await desk.claimed() == [seq]
    await desk.deliver(seq)
    with pytest.raises(ForbiddenMoveError):
        await desk.journal.act(lambda context: context.operations.retry(seq, OperationRequest("ana", NOW)))


async def test_what_was_refused_is_taken_in_anew_in_its_old_place(desk: Desk) -> None:
    """It goes before what came later for its patient, and is found by the patient from then on."""
    refused = await desk.record("1", state=State.REJECTED, reason="unknown-authority")
    later = await desk.record("2", ("s|1",))
    judged = entry("1", ("s|1",), flags=("told",))
    assert (
        await desk.journal.act(lambda context: context.operations.admit(refused, judged, OperationRequest("ana", NOW)))
        == 1
    )
    assert await desk.claimed() == [refused]
    with Reader(desk.folder) as reader:
        row = reader.show(refused).row
        assert (row.state is not State.REJECTED, row.flags) == (True, ("told", "judged-anew"))
        assert [one.seq for one in reader.list(Filters(patient="s|1"))] == [later, refused]
    await desk.deliver(refused)
    assert await desk.claimed() == [later]
    with pytest.raises(ForbiddenMoveError, match="already"):
        await desk.journal.act(lambda context: context.operations.admit(refused, judged, OperationRequest()))


async def test_what_was_refused_and_overtaken_is_taken_in_only_by_force(desk: Desk) -> None:
    """Its patient has newer data by now; nothing of it is changed by the refusal."""
    refused = await desk.record("1", state=State.REJECTED, reason="unknown-authority")
    await delivered(desk, "2")
    judged = entry("1", ("s|1",))
    with pytest.raises(ForbiddenMoveError, match="--force"):
        await desk.journal.act(lambda context: context.operations.admit(refused, judged, OperationRequest()))
    with Reader(desk.folder) as reader:
        assert reader.show(refused).row.state is State.REJECTED
    assert (
        await desk.journal.act(lambda context: context.operations.admit(refused, judged, OperationRequest(force=True)))
        == 1
    )
    assert (await desk.claim())[0].forced


async def test_an_edit_is_an_entry_of_its_own_behind_the_others(desk: Desk) -> None:
    """The same bytes twice are two edits; the original stays as it is unless it is to be discarded."""
    first = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="refused"))
    changed = entry("1", ("s|1",), raw=b"edited", parent=first)
    one = await desk.journal.act(
        lambda context: context.operations.edit(first, changed, b"[]", OperationRequest("ana", NOW))
    )
    two = await desk.journal.act(
        lambda context: context.operations.edit(first, changed, b"[]", OperationRequest("ana", NOW), "wrong")
    )
    assert (one.duplicate, two.duplicate, one.flags) == (False, False, ())
    assert await desk.claimed() == [one.seq]
    await desk.deliver(one.seq)
    assert await desk.claimed() == [two.seq]
    with Reader(desk.folder) as reader:
        assert (reader.show(first).row.state, reader.show(two.seq).parent) == (State.DISCARDED, first)


async def test_an_edit_of_what_was_overtaken_needs_force(desk: Desk) -> None:
    """The edited message would put older data over newer."""
    first, _last = await delivered(desk, "1", "2")
    changed = entry("1", ("s|1",), raw=b"edited", parent=first)
    with pytest.raises(ForbiddenMoveError, match="--force"):
        await desk.journal.act(lambda context: context.operations.edit(first, changed, b"[]", OperationRequest()))
    assert (
        await desk.journal.act(
            lambda context: context.operations.edit(first, changed, b"[]", OperationRequest(force=True))
        )
    ).seq == 3


async def test_a_choice_stays_until_the_record_is_another_one(desk: Desk) -> None:
    """What a delivery finds to be current does not forget that somebody chose it, and that the record bears it now."""
    await desk.journal.write(lambda connection: choose(connection, "d", [("s", "1")], "p1"))
    told = []
    for logical_id in ("p1", "p2"):
        seq = await desk.record(logical_id, ("s|1",))
        await desk.claim()
        await desk.deliver(seq, known=(KnownIdentity("d", "s", "1", logical_id),))
        told.append((await desk.remembered(memory.known, "d", [("s", "1")]))["s", "1"].status)
    assert told == ["confirmed", "current"]


async def test_what_is_being_delivered_is_not_discarded_however_often_one_asks(desk: Desk) -> None:
    """A refused act rolls back what is not durable, the claim in the file with it; the entry is out all the same."""
    seq = await desk.record("1", ("s|1",), destinations=("d", "e"))
    await desk.claim(limit=1)
    for _ in range(3):
        with pytest.raises(ForbiddenMoveError):
            await desk.discard(seq, "a mistake", "kim")
    await desk.deliver(seq)
