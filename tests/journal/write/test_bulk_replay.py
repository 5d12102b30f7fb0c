"""Bulk runs: entries taken up in order, those of a patient together, and once each whatever comes between."""

from pathlib import Path
from typing import Any

import pytest

from engine.errors import UnknownRunError, UsageError
from engine.journal.entry import State
from engine.journal.read import selecting
from engine.journal.read.selecting import Selection, select
from engine.journal.write import bulk_replay
from engine.journal.write.bulk_replay import ReplayItem, Run, RunKind, RunState
from tests.journal.desk import LATE, NOW, Desk, Opener, entry, settlement


def a_run(**given: Any) -> Run:
    """Return a run that is to begin."""
    settings: dict[str, Any] = {
        "number": 0,
        "kind": RunKind.REPLAY,
        "by": "ana",
        "asked": {},
        "destination": "",
        "force": False,
        "rate": 100.0,
        "state": RunState.FILLING,
        "started_at": NOW,
        "ended_at": None,
        "total": 0,
        "counts": {},
    }
    return Run(**settings | given)


async def begun(desk: Desk, *seqs: int, **given: Any) -> Run:
    """Begin a run over entries and return it."""
    number = await desk.journal.write(lambda connection: bulk_replay.begin(connection, a_run(**given)))
    await desk.journal.write(lambda connection: bulk_replay.fill(connection, number, seqs))
    await desk.journal.write(lambda connection: bulk_replay.filled(connection, number))
    return await desk.journal.read(lambda connection: bulk_replay.show(connection, number))


async def taken(desk: Desk, run: Run, most: int) -> list[int]:
    """Take up the next entries of a run and return their numbers."""
    rows = await desk.journal.read(lambda connection: bulk_replay.upcoming(connection, run.number, most))
    items = [ReplayItem(row.seq) for row in rows]
    await desk.journal.act(lambda context: bulk_replay.take_up(context, run, items, NOW))
    return [item.seq for item in items]


async def shown(desk: Desk, run: Run) -> Run:
    """Return how a run stands now."""
    return await desk.journal.read(lambda connection: bulk_replay.show(connection, run.number))


async def delivered(desk: Desk, *people: str) -> list[int]:
    """Record and deliver a message of each of the people."""
    seqs = [await desk.record(f"{at}", (f"s|{who}",)) for at, who in enumerate(people)]
    while rows := await desk.claim():
        for row in rows:
            await desk.deliver(row.seq)
    return seqs


async def test_a_run_takes_those_of_a_patient_together(desk: Desk) -> None:
    """In journal order; what is new for the patient meanwhile stands behind all of them."""
    seqs = await delivered(desk, "1", "2", "1", "2", "1")
    run = await begun(desk, *seqs, force=True)
    assert await taken(desk, run, 1) == [1, 3, 5]
    new = await desk.record("new", ("s|1",))
    order = []
    while rows := await desk.claim():
        for row in rows:
            order.append(row.seq)
            await desk.journal.settle(settlement(row.seq))
    assert order == [1, 3, 5, new]
    assert await taken(desk, run, 1) == [2, 4]
    assert await taken(desk, run, 1) == []


async def test_what_came_in_since_the_run_began_is_never_gone_over(desk: Desk) -> None:
    """By force a run replays what was overtaken by what was there, not by what was applied meanwhile."""
    seqs = await delivered(desk, "1", "1", "2")
    run = await begun(desk, *seqs, force=True)
    late = await desk.record("late", ("s|1",))
    await desk.claim()
    await desk.deliver(late)
    assert await taken(desk, run, 10) == [1, 2, 3]
    run = await shown(desk, run)
    assert run.counts == {"refused": 2, "under way": 1}
    assert "since the run began" in run.refusals[0][1]


async def test_a_patient_who_is_being_delivered_is_left_for_the_next_time(desk: Desk) -> None:
    """What is newer and under way ends first; then the older ones are taken up, or refused."""
    seqs = await delivered(desk, "1", "2")
    run = await begun(desk, *seqs)
    new = await desk.record("new", ("s|1",))
    assert await desk.claimed() == [new]
    assert await taken(desk, run, 10) == [1, 2]
    assert (await shown(desk, run)).counts == {"under way": 1}
    await desk.deliver(new)
    assert await taken(desk, run, 10) == [1]
    assert (await shown(desk, run)).counts == {"refused": 1, "under way": 1}


async def test_patients_whom_a_message_joins_are_taken_together(desk: Desk) -> None:
    """A message of two lanes takes those of both along."""
    for at, people in enumerate((["1"], ["2"], ["1", "2"], ["2"], ["3"])):
        await desk.record(f"{at}", *[(f"s|{who}",) for who in people])
    while rows := await desk.claim():
        for row in rows:
            await desk.deliver(row.seq)
    run = await begun(desk, 1, 2, 3, 4, 5, force=True)
    assert await taken(desk, run, 1) == [1, 2, 3, 4]


async def test_what_is_refused_is_counted_with_its_reason(desk: Desk) -> None:
    """Older than what was applied: refused without force, and the others go on."""
    seqs = await delivered(desk, "1", "1", "2")
    run = await begun(desk, *seqs, 99)
    await taken(desk, run, 10)
    run = await shown(desk, run)
    assert (run.total, run.position, run.counts) == (4, 3, {"refused": 1, "under way": 2})
    assert run.refusals == ((1, run.refusals[0][1]),)
    assert "--force" in run.refusals[0][1]


async def test_outcomes_are_counted_as_they_come(desk: Desk) -> None:
    """Delivered, held, waiting behind what is held; the end keeps the counts and forgets the entries."""
    seqs = await delivered(desk, "1", "2", "2")
    run = await begun(desk, *seqs, force=True)
    await taken(desk, run, 10)
    assert await desk.journal.write(lambda connection: bulk_replay.settle(connection, run)) == 2
    for row in await desk.claim():
        held = row.seq == 2
        await desk.journal.settle(settlement(row.seq, State.HELD if held else State.DELIVERED, reason="x"))
    assert await desk.journal.write(lambda connection: bulk_replay.settle(connection, run)) == 0
    await desk.journal.write(lambda connection: bulk_replay.end(connection, run.number, LATE))
    run = await shown(desk, run)
    assert (run.state, run.ended_at) == (RunState.DONE, LATE)
    assert run.counts == {"delivered": 1, "held": 1, "waiting": 1}


async def test_a_run_goes_on_after_a_restart_where_it_was(opened: Opener, tmp_path: Path) -> None:
    """What was taken up is not taken up again; a run that was never filled is forgotten, a stopped one stays."""
    async with opened() as desk:
        seqs = await delivered(desk, "1", "2", "3")
        run = await begun(desk, *seqs)
        other = await begun(desk, *seqs)
        await desk.journal.write(lambda connection: bulk_replay.stop(connection, other.number, NOW))
        half = await desk.journal.write(lambda connection: bulk_replay.begin(connection, a_run()))
        await desk.journal.write(lambda connection: bulk_replay.fill(connection, half, [1]))
        assert await taken(desk, run, 1) == [1]
    async with opened() as desk:
        assert await desk.journal.write(bulk_replay.recall) == (run.number,)
        assert await taken(desk, run, 1) == [2]
        with pytest.raises(UnknownRunError, match=str(half)):
            await desk.journal.read(lambda connection: bulk_replay.show(connection, half))
        assert (await shown(desk, other)).state is RunState.STOPPED
        assert await desk.journal.write(lambda connection: bulk_replay.resume(connection, other.number))
        assert not await desk.journal.write(lambda connection: bulk_replay.resume(connection, other.number))
        listed = await desk.journal.read(lambda connection: bulk_replay.listed(connection, 10))
        assert [(one.number, one.state) for one in listed] == [(2, RunState.RUNNING), (1, RunState.RUNNING)]


async def test_a_release_run_frees_what_is_held(desk: Desk) -> None:
    """And refuses what is not."""
    first = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.settle(settlement(first, State.HELD, reason="refused"))
    (second,) = await delivered(desk, "2")
    run = await begun(desk, first, second, kind=RunKind.RELEASE)
    await taken(desk, run, 10)
    assert (await shown(desk, run)).counts == {"refused": 1, "under way": 1}
    assert await desk.claimed() == [first]


@pytest.fixture
async def mixed(desk: Desk) -> Desk:
    """A journal with delivered, held, waiting, refused and discarded entries of two channels."""
    for at in range(3):
        await desk.record(f"{at}", ("s|1",), event="A08" if at else "A01")
        await desk.claim()
        await desk.deliver(at + 1)
    await desk.record("held", ("t|1",), channel="other")
    await desk.claim()
    await desk.journal.settle(settlement(4, State.HELD, reason="http-422"))
    await desk.record("waits", ("t|1",), received_at=LATE)
    await desk.record("refused", state=State.REJECTED, reason="unsupported-event")
    await desk.record("gone", ("s|3",))
    await desk.discard(7, "wrong", "ana")
    return desk


@pytest.mark.parametrize(
    ("given", "seqs"),
    [
        pytest.param({}, (1, 2, 3), id="delivered by default"),
        pytest.param({"state": State.HELD}, (4,), id="held"),
        pytest.param({"state": State.WAITING}, (5,), id="waiting"),
        pytest.param({"state": State.REJECTED}, (6,), id="refused at the door"),
        pytest.param({"state": State.DISCARDED}, (7,), id="discarded"),
        pytest.param({"event": "A01"}, (1,), id="event"),
        pytest.param({"state": State.HELD, "channel": "adt"}, (), id="channel"),
        pytest.param({"patient": "s|1"}, (1, 2, 3), id="patient"),
        pytest.param({"state": State.HELD, "patient": "1"}, (4,), id="patient's value"),
        pytest.param({"state": State.HELD, "reason": "http-422"}, (4,), id="reason"),
        pytest.param({"state": State.WAITING, "until": LATE}, (), id="until"),
        pytest.param({"state": State.WAITING, "since": LATE}, (5,), id="since"),
        pytest.param({"entries": (4, 2)}, (2, 4), id="by number"),
        pytest.param({"destination": "d"}, (1, 2, 3), id="delivered at a destination"),
        pytest.param({"destination": "e"}, (1, 2, 3, 4, 5), id="never given to a destination"),
        pytest.param({"destination": "e", "state": State.DELIVERED}, (), id="delivered at another"),
    ],
)
async def test_what_a_selection_means(mixed: Desk, given: dict[str, Any], seqs: tuple[int, ...]) -> None:
    """Each filter, in journal order."""
    assert select(mixed.folder, Selection(**given)).seqs == seqs


async def test_a_selection_is_weighed(mixed: Desk) -> None:
    """How many by event and state, and how many newer data went over."""
    found = select(mixed.folder, Selection(entries=(1, 2, 3, 4, 6)))
    assert found.events == {"A08": 4, "A01": 1}
    assert found.states == {"delivered": 3, "held": 1, "rejected": 1}
    assert found.overtaken == 2


async def test_a_selection_is_bounded(mixed: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many entries are refused, with what to do."""
    monkeypatch.setattr(selecting, "MOST_ENTRIES", 2)
    with pytest.raises(UsageError, match="--since"):
        select(mixed.folder, Selection())


async def test_a_run_that_is_refused_in_part_leaves_nothing_half_done(desk: Desk) -> None:
    """A refused entry that is judged anew and was overtaken stays as the door left it."""
    refused = await desk.record("r", state=State.REJECTED, reason="x")
    await delivered(desk, "1")
    run = await begun(desk, refused, force=True)
    item = ReplayItem(refused, judged=entry("r", ("s|1",)))
    await desk.journal.act(lambda context: bulk_replay.take_up(context, run, [item], NOW))
    assert (await shown(desk, run)).counts == {"refused": 1}
    assert await desk.claimed() == []
