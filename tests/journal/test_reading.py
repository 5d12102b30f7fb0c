"""Reading: lists, filters, pages, one entry in full, counts; beside a running engine and without one."""

from datetime import timedelta

import pytest

from engine.errors import JournalUnusableError, UnknownEntryError
from engine.journal.entry import AckOutcome, State
from engine.journal.reading import Filters, Reader
from tests.journal.desk import NOW, Desk, Opener, settlement


async def filled(desk: Desk) -> None:
    """Six entries, each in another state: 1 delivered, 2 held, 3 waiting, 4 received, 5 rejected, 6 filtered."""
    await desk.record("c1", ("s|1",), visit="v1")
    await desk.record("c2", ("s|2", "t|22"), channel="lab")
    await desk.record("c3", ("s|2",), event="A03")
    await desk.claim()
    await desk.deliver(1)
    await desk.journal.settle(settlement(2, State.HELD, reason="refused"))
    await desk.record("c4", ("s|1",), received_at=NOW + timedelta(hours=1))
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
