"""What was paused, stopped or counted is so after the journal is opened again."""

from functools import partial

from engine.journal.entry import State
from engine.journal.read import backlog
from engine.journal.state import pausing
from engine.journal.state.pausing import CountedMerge, HeldMerges, Pause, Stopped
from tests.journal.desk import LATE, NOW, Desk, Opener, settlement

PAUSE = Pause("d", "by-operator", "upgrade", NOW, "root")


async def test_a_pause_outlives_the_journal(opened: Opener) -> None:
    """The first reason stays until somebody resumes."""
    async with opened() as desk:
        await desk.journal.write(partial(pausing.pause, pauses=(PAUSE,)))
        await desk.journal.write(partial(pausing.pause, pauses=(Pause("d", "hold-storm", "", LATE, "x"),)))
    async with opened() as desk:
        assert await desk.journal.read(pausing.paused) == (PAUSE,)
        assert await desk.journal.write(partial(pausing.resume, destination="d"))
        assert not await desk.journal.write(partial(pausing.resume, destination="d"))
        assert await desk.journal.read(pausing.paused) == ()


async def test_a_restored_journal_pauses_whatever_destinations_there_are(desk: Desk) -> None:
    """What is said of every destination is said of each one when the engine starts."""
    await desk.journal.write(lambda connection: pausing.pause_everywhere(connection, "restored", NOW))
    found = await desk.journal.write(partial(pausing.paused_at_start, destinations=("a", "b")))
    assert [(one.destination, one.reason) for one in found] == [("a", "restored"), ("b", "restored")]
    assert await desk.journal.read(pausing.paused) == found


async def test_a_stopped_channel_is_remembered(desk: Desk) -> None:
    """Who stopped it first, and when."""
    await desk.journal.write(partial(pausing.stop, channel="adt", now=NOW, by="root"))
    await desk.journal.write(partial(pausing.stop, channel="adt", now=LATE, by="else"))
    assert await desk.journal.read(pausing.stopped) == (Stopped("adt", NOW, "root"),)
    assert await desk.journal.write(partial(pausing.start, channel="adt"))
    assert await desk.journal.read(pausing.stopped) == ()


async def test_merges_are_counted_once_and_bounded(desk: Desk) -> None:
    """An entry that is counted again after a kill counts once; of each source the newest are kept."""
    for seq in (*range(1, 9), 8):
        counted = [CountedMerge("adt", "A|B", NOW, LATE, seq)] * 2
        await desk.journal.write(partial(pausing.count, merges=counted, keep=6))
    rows = await desk.journal.read(pausing.counted)
    assert [row.seq for row in rows] == [6, 6, 7, 7, 8, 8]
    held = HeldMerges("adt", "A|B", NOW)
    await desk.journal.write(partial(pausing.hold, held=held))
    assert await desk.journal.read(pausing.held) == (held,)
    assert await desk.journal.write(partial(pausing.let, channel="adt"))
    assert (await desk.journal.read(pausing.counted), await desk.journal.read(pausing.held)) == ((), ())


async def test_what_was_claimed_ahead_is_given_back(desk: Desk) -> None:
    """It may be claimed again, in its order, or be discarded; what an older one came before waits again."""
    first, second = await desk.record("A", ("s|1",)), await desk.record("B", ("s|2",))
    assert await desk.claimed() == [first, second]
    await desk.journal.give_back("d", [first, second])
    assert await desk.discard(second, "not wanted", "root") == 0
    assert await desk.claimed() == [first]


async def test_the_backlog_counts_what_is_unfinished(desk: Desk) -> None:
    """By destination: what is on its way, since when, and what is held."""
    held, _waiting, _other = [await desk.record(name, (f"s|{name[0]}",)) for name in ("A1", "A2", "B1")]
    await desk.claim(1)
    await desk.journal.settle(settlement(held, State.HELD, reason="x", keep_lane=True))
    found = await desk.journal.read(partial(backlog.backlog_of, "d"))
    assert (found.depth, found.waiting, found.oldest_at) == (2, 1, NOW)
    assert (found.held, found.held_since) == (1, NOW)
    assert await desk.journal.read(partial(backlog.of_channel, "adt", ("d",))) == 2
    assert await desk.journal.read(partial(backlog.has_unfinished, "d"))
    assert not await desk.journal.read(partial(backlog.has_unfinished, "elsewhere"))
    assert backlog.backlogs(desk.folder, ("d",)) == {"d": found}
