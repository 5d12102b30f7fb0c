"""What is old leaves the journal, by state and age, and nothing that is unfinished."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import fault
from engine.journal.entry import AckOutcome, State
from engine.journal.journal import Journal
from engine.journal.maintenance.retention import BATCH, PrunedPage, RetentionPolicy, Rules, due, prune
from engine.journal.maintenance.verify import faults
from engine.journal.opening import open_reader
from engine.journal.read.reading import Reader
from tests.journal.desk import NOW, Desk, Opener, entry, intent, settlement
from tests.tiers import trials

MONTH = RetentionPolicy(timedelta(days=30), timedelta(days=365))
RULES: Rules = {"adt": dict.fromkeys((State.DELIVERED, State.FILTERED, State.REJECTED, State.DISCARDED), MONTH)}
ENDS = (State.DELIVERED, State.HELD, State.REJECTED)


def days(number: float) -> datetime:
    """Return the moment so many days after the messages came."""
    return NOW + timedelta(days=number)


async def pruned(desk: Desk, now: datetime, rules: Rules = RULES) -> PrunedPage:
    """Walk once from one end to the other."""
    body = whole = 0
    bodies = entries = 0
    while True:
        page: PrunedPage = await desk.journal.write(
            partial(prune, rules=rules, now=now, after_body=body, after_entry=whole)
        )
        bodies, entries = bodies + page.bodies, entries + page.entries
        body, whole = page.next_body, page.next_entry
        if page.finished:
            return PrunedPage(bodies, entries, body, whole)


def rows(desk: Desk, query: str, *values: int) -> list[tuple[object, ...]]:
    """Return rows as another program sees them."""
    connection = open_reader(desk.folder)
    try:
        return list(connection.execute(query, values).fetchall())
    finally:
        connection.close()


async def delivered(desk: Desk, control_id: str, *patients: tuple[str, ...], **given: object) -> int:
    """Record an entry and carry it to its end."""
    seq = await desk.record(control_id, *patients, **given)
    await desk.claim()
    await desk.deliver(seq, plan=b'{"of": "a patient"}')
    return seq


async def test_a_body_leaves_before_its_entry(desk: Desk) -> None:
    """After the days of bodies nothing of the message is left; entry, codes and acknowledgement are."""
    seq = await delivered(desk, "1", ("s|1",))
    await desk.record("2", ("s|2",))
    assert (await pruned(desk, days(29.9))).bodies == 0
    assert (await pruned(desk, days(30))).bodies == 1
    assert rows(desk, "SELECT COUNT(*) FROM payload WHERE seq = ?", seq) == [(0,)]
    assert rows(desk, "SELECT COUNT(*) FROM plan WHERE seq = ?", seq) == [(0,)]
    assert rows(desk, "SELECT body, headers FROM attempt WHERE seq = ?", seq) == [(b"", "[]")]
    assert rows(desk, "SELECT status, response FROM answer") == [(200, b"")]
    assert rows(desk, "SELECT acknowledgement FROM worn WHERE seq = ?", seq) == [(b"MSA|AA|1",)]
    assert rows(desk, "SELECT state FROM delivery WHERE seq = ?", seq) == [("delivered",)]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
@pytest.mark.parametrize("older", [False, True], ids=["as it is kept now", "as an older program kept it"])
async def test_what_a_url_asks_by_leaves_with_the_body(desk: Desk, older: bool) -> None:
    """A search names a patient by number: where it went stays, whom it asked for does not."""
    seq = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.journal.intend(seq, "d", replace(intent(), url="http://127.0.0.1/Patient?identifier=s%7C4711"))
    await desk.journal.settle(settlement(seq))
    await desk.record("2", ("s|2",))
    if older:
        back = "UPDATE attempt SET url = url || '?' || CAST(query AS TEXT), query = x''"
        await desk.journal.write(lambda connection: connection.execute(back) and None)
    assert (await pruned(desk, days(30))).bodies == 1
    assert rows(desk, "SELECT url, query FROM attempt") == [("http://127.0.0.1/Patient", b"")]
    with Reader(desk.folder) as reader:
        assert reader.show(seq).deliveries[0].attempts[0].intent.url == "http://127.0.0.1/Patient"


async def test_an_entry_leaves_whole_and_what_is_known_of_patients_stays(desk: Desk) -> None:
    """After the days of entries no table speaks of it, but lanes and identities are as they were."""
    seq = await delivered(desk, "1", ("s|1", "s|2"))
    await desk.record("2", ("s|2",))
    lanes = rows(desk, "SELECT * FROM lane_of")
    assert (await pruned(desk, days(365))).entries == 1
    for table in ("entry", "payload", "delivery", "attempt", "plan", "worn", "named_in"):
        assert rows(desk, f"SELECT COUNT(*) FROM {table} WHERE seq = ?", seq) == [(0,)], table  # noqa: S608
    assert rows(desk, "SELECT COUNT(*) FROM answer") == [(0,)]
    assert rows(desk, "SELECT * FROM lane_of") == lanes
    assert len(lanes) == 2


async def test_what_is_unfinished_stays_for_ever(desk: Desk) -> None:
    """Held, waiting and received entries are work, however old, and whatever rules say of them."""
    held = await desk.record("1", ("s|1",))
    await desk.claim()
    await desk.deliver(held, state=State.HELD, reason="http-422")
    await desk.record("2", ("s|1",))
    await desk.record("3", ("s|3",))
    await desk.record("4", ("s|4",))
    rules = {"adt": dict.fromkeys(State, MONTH)}
    assert await pruned(desk, days(9999), rules) == PrunedPage(0, 0, -1, -1)


async def test_the_newest_entry_stays_so_that_numbers_go_on(desk: Desk) -> None:
    """A feed that stood still for years does not begin again at 1."""
    for number in range(3):
        await delivered(desk, str(number), (f"s|{number}",))
    assert (await pruned(desk, days(9999))).entries == 2
    assert await desk.record("next", ("s|9",)) == 4


async def test_age_counts_from_the_end_not_from_the_receipt(desk: Desk) -> None:
    """What was held for long and then delivered keeps its body for the days after that."""
    seq = await desk.record("1", ("s|1",), received_at=days(-40))
    await desk.record("2", ("s|2",))
    await desk.claim()
    await desk.deliver(seq)
    assert (await pruned(desk, days(29))).bodies == 0
    assert (await pruned(desk, days(30))).bodies == 1


async def test_each_channel_and_state_has_its_own_days(desk: Desk) -> None:
    """What was refused may be kept longer than what was delivered; what no rule names stays."""
    await delivered(desk, "1", ("s|1",))
    await desk.record("2", state=State.REJECTED, reason="bad-code", ack_outcome=AckOutcome.SENT)
    await delivered(desk, "3", ("s|3",), channel="other")
    await delivered(desk, "4", ("s|4",), channel="gone")
    await desk.record("5", ("s|5",))
    long = RetentionPolicy(timedelta(days=90), timedelta(days=365))
    rules: Rules = {"adt": {State.DELIVERED: MONTH, State.REJECTED: long}, "other": {}, "": {State.DELIVERED: MONTH}}
    assert (await pruned(desk, days(31), rules)).bodies == 2
    assert rows(desk, "SELECT seq FROM worn ORDER BY seq") == [(1,), (4,)]
    assert (await pruned(desk, days(91), rules)).bodies == 1
    assert rows(desk, "SELECT seq FROM payload ORDER BY seq") == [(3,), (5,)]


async def test_a_resend_after_the_body_left_gets_the_stored_answer(desk: Desk) -> None:
    """The same bytes again are no new entry, as the digest and the acknowledgement stay with the entry."""
    seq = await delivered(desk, "1", ("s|1",))
    await desk.record("2", ("s|2",))
    await pruned(desk, days(31))
    again = await desk.journal.record(entry("1", ("s|1",)))
    assert (again.seq, again.duplicate, again.acknowledgement) == (seq, True, b"MSA|AA|1")


async def test_a_walk_takes_many_pages(desk: Desk) -> None:
    """A journal of more than one page is walked whole, each page a transaction of its own."""
    count = BATCH + 20  # more than a page, less than two
    recorded = await desk.together(desk.journal.record(entry(str(n), (f"s|{n}",))) for n in range(count))
    while claimed := await desk.claim(limit=1000):
        await desk.together(desk.deliver(one.seq) for one in claimed)
    with contextlib.closing(open_reader(desk.folder)) as reader:
        assert due(reader, RULES, days(30)) == (count - 1, 0)
    assert (await pruned(desk, days(30))).bodies == len(recorded) - 1
    assert (await pruned(desk, days(365))).entries == len(recorded) - 1


async def test_a_page_that_is_struck_leaves_everything(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure in the middle of a page undoes all of it (F23)."""
    async with opened() as desk:
        seq = await delivered(desk, "1", ("s|1",))
        await desk.record("2", ("s|2",))
        armed: list[object] = []
        monkeypatch.setattr(fault, "_armed", armed)
        fault.arm("F23:raise")
        with pytest.raises(fault.InjectedFaultError):
            await pruned(desk, days(31))
        armed.clear()
        assert rows(desk, "SELECT COUNT(*) FROM payload WHERE seq = ?", seq) == [(1,)]
        assert rows(desk, "SELECT COUNT(*) FROM worn") == [(0,)]
        assert (await pruned(desk, days(31))).bodies == 1


@pytest.mark.property
@settings(max_examples=trials(15), deadline=None)
@given(ages=st.lists(st.tuples(st.integers(0, 400), st.sampled_from(ENDS)), min_size=1, max_size=12))
def test_exactly_what_is_old_and_ended_leaves(
    ages: list[tuple[int, State]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the ages and ends, the bodies left are those unfinished, young, or newest; and the journal is sound."""

    async def live() -> None:
        folder = tmp_path_factory.mktemp("journal")
        journal = await Journal.open(folder, clock=lambda: NOW, fail=lambda _error: None)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(journal.close)
            desk = Desk(journal, folder, [])
            for number, (age, end) in enumerate(sorted(ages, reverse=True, key=lambda one: one[0])):
                seq = await desk.record(str(number), (f"s|{number}",), received_at=days(-age))
                await desk.claim()
                await desk.deliver(seq, state=end, at=days(-age))
            await pruned(desk, NOW)
            connection = open_reader(folder)
            with contextlib.closing(connection):
                assert list(faults(connection)) == []
                left = {row[0] for row in connection.execute("SELECT seq FROM payload ORDER BY seq")}
        expected = {
            number
            for number, (age, end) in enumerate(sorted(ages, reverse=True, key=lambda one: one[0]), 1)
            if end is State.HELD or age < 30 or number == len(ages)
        }
        assert left == expected

    asyncio.run(live())
