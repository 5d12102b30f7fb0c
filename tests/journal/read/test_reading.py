"""Reading: lists, filters, pages, one entry in full, counts; beside a running engine and without one."""

import asyncio
from datetime import timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import JournalError, JournalUnusableError, UnknownEntryError
from engine.journal.entry import AckOutcome, RequestOutcome, State
from engine.journal.journal import Journal
from engine.journal.read import filtering, reading
from engine.journal.read.reading import Filters, Reader
from engine.journal.read.searching import EntrySearch
from engine.journal.read.views import EntryPage
from tests.journal.desk import NOW, Desk, Opener, entry, intent, settlement
from tests.tiers import trials


async def filled(desk: Desk) -> None:
    """Six entries, each in another state: 1 delivered, 2 held, 3 waiting, 4 received, 5 rejected, 6 filtered."""
    await desk.record("c1", ("s|1",), visit="v1")
    await desk.record("c2", ("s|2", "t|22"), channel="lab", source="LAB|RVB")
    await desk.record("c3", ("s|2",), event="A03")
    await desk.claim()
    await desk.deliver(1, notes=("possible-duplicate", "unmapped-code PID-8", "unmapped-code PID-10"))
    await desk.journal.intend(2, "d", intent())
    outcome = RequestOutcome(1, 422, ("code-invalid",), "permanent", 1.5)
    await desk.journal.settle(settlement(2, State.HELD, reason="refused", outcomes=(outcome,)))
    await desk.record("c4", ("s|1",), received_at=NOW + timedelta(hours=1), flags=("conformance: 3",))
    await desk.record("c5", ("s|5",), state=State.REJECTED, reason="self-merge")
    await desk.record("c6", state=State.FILTERED, reason="query")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        pytest.param(Filters(), [6, 5, 4, 3, 2, 1], id="all, newest first"),
        pytest.param(Filters(state=State.DELIVERED), [1], id="delivered"),
        pytest.param(Filters(state=State.HELD), [2], id="held"),
        pytest.param(Filters(state=State.WAITING), [3], id="waiting"),
        pytest.param(Filters(state=State.RECEIVED), [4], id="received"),
        pytest.param(Filters(state=State.REJECTED), [5], id="rejected at the door"),
        pytest.param(Filters(state=State.FILTERED), [6], id="filtered"),
        pytest.param(Filters(channel="lab"), [2], id="channel"),
        pytest.param(Filters(event="A03"), [3], id="event"),
        pytest.param(Filters(control_id="c4"), [4], id="control id"),
        pytest.param(Filters(patient="s|2"), [3, 2], id="patient by system and value"),
        pytest.param(Filters(patient="22"), [2], id="patient by value"),
        pytest.param(Filters(patient="2"), [3, 2], id="a value is whole"),
        pytest.param(Filters(patient="s|5"), [5], id="patient of a refused entry"),
        pytest.param(Filters(visit="v1"), [1], id="visit"),
        pytest.param(Filters(since=NOW + timedelta(minutes=1)), [4], id="since"),
        pytest.param(Filters(until=NOW + timedelta(minutes=1)), [6, 5, 3, 2, 1], id="until"),
        pytest.param(Filters(since=NOW, until=NOW), [], id="no time at all"),
        pytest.param(Filters(source="LAB|RVB"), [2], id="source"),
        pytest.param(Filters(source="LAB|RVB", event="A08"), [2], id="source and event"),
        pytest.param(Filters(channel="adt", event="A08"), [6, 5, 4, 1], id="channel and event"),
        pytest.param(Filters(channel="adt", source="LAB|RVB"), [], id="channel and source, never together"),
        pytest.param(Filters(reason="refused"), [2], id="reason of a delivery"),
        pytest.param(Filters(reason="query"), [6], id="reason at the door"),
        pytest.param(Filters(reason="nothing"), [], id="no such reason"),
        pytest.param(Filters(outcome="possible-duplicate"), [1], id="note"),
        pytest.param(Filters(outcome="unmapped-code"), [1], id="note with a place"),
        pytest.param(Filters(outcome="unmapped-code PID-8"), [1], id="note and its place"),
        pytest.param(Filters(outcome="unmapped"), [], id="a note is whole"),
        pytest.param(Filters(outcome="conformance"), [4], id="flag with a count"),
        pytest.param(Filters(outcome="code-invalid"), [2], id="code of an answer"),
        pytest.param(Filters(outcome="stale", state=State.HELD), [], id="note and state"),
        pytest.param(Filters(patient="s|1", state=State.RECEIVED), [4], id="two filters"),
        pytest.param(Filters(patient="nobody"), [], id="nothing"),
    ],
)
async def test_a_list_holds_what_the_filters_ask_for(desk: Desk, filters: Filters, expected: list[int]) -> None:
    """Each filter alone, and together."""
    await filled(desk)
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.list(filters)] == expected


async def test_pages_follow_each_other_without_gaps(desk: Desk) -> None:
    """A page begins where the one before ended, though entries come in meanwhile."""
    await filled(desk)
    with Reader(desk.folder) as reader:
        first = [row.seq for row in reader.list(Filters(), limit=4)]
        await desk.record("c7", ("s|7",))
        second = [row.seq for row in reader.list(Filters(), limit=4, before_seq=first[-1])]
    assert (first, second) == ([6, 5, 4, 3], [2, 1])


async def test_an_entry_stands_at_its_least_finished_delivery(desk: Desk) -> None:
    """Delivered at one destination and held at another is held."""
    seq = await desk.record("1", ("s|1",), destinations=("d", "e"))
    for name in ("d", "e"):
        await desk.claim(destination=name)
    await desk.deliver(seq)
    await desk.journal.settle(settlement(seq, State.HELD, destination="e", reason="would-merge"))
    with Reader(desk.folder) as reader:
        view = reader.show(seq)
    assert (view.row.state, view.row.reason) == (State.HELD, "would-merge")
    assert [(one.destination, one.state) for one in view.deliveries] == [("d", State.DELIVERED), ("e", State.HELD)]


async def test_counts_of_a_journal(desk: Desk) -> None:
    """By state at the door, and by destination."""
    await filled(desk)
    with Reader(desk.folder) as reader:
        stats = reader.stats()
    assert (stats.entries, stats.last_seq) == (6, 6)
    assert stats.at_door == {"rejected": 1, "filtered": 1}
    assert stats.deliveries == {"d": {"held": 1, "waiting": 1, "received": 1}}
    assert stats.oldest_unfinished_at == NOW


async def test_a_journal_is_read_when_no_engine_runs(opened: Opener) -> None:
    """The last writer has left a whole file."""
    async with opened() as desk:
        await filled(desk)
    with Reader(desk.folder) as reader:
        view = reader.show(1)
    assert (view.row.control_id, view.row.ack_outcome, view.acknowledgement) == ("c1", AckOutcome.OWED, b"MSA|AA|c1")


async def test_what_is_not_there_is_named(desk: Desk, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No such entry; no such journal."""
    with Reader(desk.folder) as reader, pytest.raises(UnknownEntryError, match="12"):
        reader.show(12)
    with pytest.raises(JournalUnusableError, match="no journal"):
        Reader(tmp_path_factory.mktemp("empty"))


async def test_a_note_that_a_replay_made_untrue_is_found_no_more(desk: Desk) -> None:
    """The work list of a note holds what bears it now."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.deliver(seq, notes=("possible-duplicate",))
    await desk.replay(seq, by="somebody")
    await desk.claim()
    await desk.journal.settle(settlement(seq, reason="unchanged"))
    with Reader(desk.folder) as reader:
        assert reader.page(Filters(outcome="possible-duplicate")).rows == ()
        assert [row.seq for row in reader.page(Filters(reason="unchanged")).rows] == [seq]


@pytest.mark.parametrize("bound", ["MOST_FEEDS", "MOST_SORTED", "MOST_CODES"])
async def test_what_is_too_much_for_an_index_is_found_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """A sender with thousands of names, a control id that never changes, codes without end: entries are walked."""
    await filled(desk)
    await desk.record("c7", flags=("unmapped-code ZZZ-1",), channel="lab", state=State.FILTERED)
    monkeypatch.setattr(filtering, bound, 1)
    with Reader(desk.folder) as reader:
        assert [row.seq for row in reader.page(Filters(channel="adt", event="A08")).rows] == [6, 5, 4, 1]
        assert [row.seq for row in reader.page(Filters(control_id="c4")).rows] == [4]
        assert [row.seq for row in reader.page(Filters(outcome="unmapped-code")).rows] == [7, 1]


async def test_a_search_that_takes_too_long_says_how_far_it_came(desk: Desk) -> None:
    """The page ends with the chunk in which the time was over, and the next one goes on there to the end."""
    await asyncio.gather(*(desk.record(f"c{number}", ("s|1",)) for number in range(200)))
    ticking = count()
    with Reader(desk.folder) as reader, reader._moment():
        search = EntrySearch(reader._connection, Filters(state=State.DELIVERED), lambda: float(next(ticking)))
        page = search.page(50, None, seconds=0)
    assert (page.rows, page.before, page.searched_back_to) == ((), 137, NOW)  # a chunk is of 64
    with Reader(desk.folder) as reader:
        assert reader.page(Filters(state=State.DELIVERED), 50, page.before) == EntryPage((), None, None)


@pytest.mark.property
@given(
    steps=st.lists(st.integers(-90_000, 90_000), min_size=1, max_size=12),
    bounds=st.tuples(st.integers(), st.integers()),
)
@settings(max_examples=trials(20), deadline=None)
def test_no_entry_of_a_time_is_missed_whatever_the_clock_did(steps: list[int], bounds: tuple[int, int]) -> None:
    """Clocks are set forward and back; since and until hold of each entry by its own time."""
    moments, at = [], 0
    for step in steps:
        at += step
        moments.append(NOW + timedelta(seconds=at))
    since, until = (NOW + timedelta(seconds=bound % 400_000 - 200_000) for bound in bounds)

    async def found(folder: Path) -> list[int]:
        journal = await Journal.open(folder, clock=lambda: NOW, fail=pytest.fail)
        for number, moment in enumerate(moments):
            await journal.record(entry(f"c{number}", ("s|1",), received_at=moment))
        await journal.close()
        with Reader(folder) as reader:
            return [row.seq for row in reader.list(Filters(since=since, until=until))]

    with TemporaryDirectory() as name:
        expected = [seq for seq, moment in enumerate(moments, 1) if since <= moment < until]
        assert asyncio.run(found(Path(name))) == expected[::-1]


async def test_nobody_keeps_the_write_ahead_log_for_long(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look-up that does not end is broken off with the next step named, and the reader goes on."""
    await desk.record("1", ("s|1",))
    monkeypatch.setattr(reading, "MOST_SECONDS", 0.05)
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n"
    with Reader(desk.folder) as reader:
        with pytest.raises(JournalError, match="--since"), reader._moment():
            reader._connection.execute(endless).fetchall()
        assert [row.seq for row in reader.page(Filters()).rows] == [1]
