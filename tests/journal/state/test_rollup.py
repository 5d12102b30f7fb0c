"""Rolled-up counts: added up once, over nodes and restarts, from an older journal too, and gone when they are old."""

import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.journal.entry import AckOutcome, State
from engine.journal.file.database import FILE
from engine.journal.moment import to_micros
from engine.journal.read.reading import Reader
from engine.journal.state import alerting, rollup, tally, uptime
from engine.journal.state.rollup import roll_up
from engine.journal.state.tally import WIDTHS, TallyKey, bucket_of, delivery_of
from tests.journal.conftest import node
from tests.journal.desk import NOW, Desk, Opener, open_desk, settlement

MINUTES = [timedelta(minutes=number) for number in range(100)]
WHOLE = {"since": NOW - timedelta(days=60), "until": NOW + timedelta(days=60)}


async def roll(desk: Desk, now: datetime, waits: Mapping[TallyKey, int] | None = None, **given: Any) -> bool:
    """Roll up once, as a process does that began at NOW."""
    work = partial(roll_up, waits=waits or {}, depths=given.get("depths", {}), begun=given.get("begun", NOW), now=now)
    return await desk.journal.write(work)


async def roll_all(desk: Desk, now: datetime, **given: Any) -> int:
    """Roll up until nothing older is left; return in how many steps."""
    steps = 1
    while await roll(desk, now, **given):
        steps += 1
    return steps


def rows(folder: Path, width: int) -> dict[tuple[str, str, int], int]:
    """Return what a width says over all time: by series, of whom, and bucket."""
    found: Counter[tuple[str, str, int]] = Counter()
    with Reader(folder) as reader:
        for one in reader.rolled(width, **WHOLE):
            found[one.series, one.who, one.bucket] += one.times
    return dict(found)


async def fill(desk: Desk, *, at: datetime = NOW, count: int = 3, first: int = 1) -> None:
    """Record, answer and deliver some messages, each 700 ms after it came; of three more one is refused, two held."""
    for number in range(first, first + count):
        seq = await desk.record(f"{number}", (f"s|{number}",), received_at=at)
        await desk.claim(now=at)
        desk.journal.acknowledged(seq, AckOutcome.SENT)
        await desk.journal.settle(settlement(seq, at=at + timedelta(milliseconds=700)))
    await desk.record(f"r{first}", received_at=at, state=State.REJECTED)
    await desk.record(f"h{first}", received_at=at, state=State.HELD)
    seq = await desk.record(f"x{first}", (f"s|x{first}",), received_at=at)
    await desk.claim(now=at)
    await desk.journal.settle(settlement(seq, State.HELD, at=at))


def wait_of(milliseconds: float) -> TallyKey:
    """Return where a delivery of some milliseconds is counted."""
    return delivery_of("d", NOW, NOW + timedelta(milliseconds=milliseconds), delayed=False)


@pytest.mark.parametrize("milliseconds", [0, 0.004, 3, 10_001, 68_000, 3_000_001])
async def test_an_answer_is_counted_as_a_delivery_is(opened: Opener, tmp_path: Path, milliseconds: float) -> None:
    """In the same buckets, in rows of all widths at once."""
    async with opened(clock=lambda: NOW + timedelta(milliseconds=milliseconds)) as desk:
        seq = await desk.record("1", ("s|1",), received_at=NOW)
        desk.journal.acknowledged(seq, AckOutcome.SENT)
    for width in WIDTHS:
        assert rows(tmp_path, width)["ack", "", wait_of(milliseconds).bucket] == 1


async def test_what_measures_nothing_is_not_counted(opened: Opener, tmp_path: Path) -> None:
    """A clock that was set back, and a message that came twice: its first receipt may be an outage ago."""
    async with opened(clock=lambda: NOW) as desk:
        back = await desk.record("1", ("s|1",), received_at=NOW + timedelta(seconds=1))
        again = await desk.record("2", ("s|2",), received_at=NOW - timedelta(hours=1))
        assert (await desk.journal.record(desk.entry("2", ("s|2",)))).duplicate
        for seq in (back, again):
            desk.journal.acknowledged(seq, AckOutcome.SENT)
    assert not [key for key in rows(tmp_path, 60) if key[0] == "ack"]


TWO = bucket_of(2_000)
COUNTED = {
    ("received", "adt", 0): 6,
    ("refused", "adt", 0): 1,
    ("held", "adt", 0): 1,
    ("held", "d", 0): 1,
    ("delivered", "d", 0): 3,
    ("ack", "", TWO): 3,
    ("sender", "ADT|RVB", 0): 6,
    ("event", "A08", 0): 6,
}


@pytest.fixture
def clock() -> Any:
    """Give a clock of the journal by which each acknowledgement is written 2 ms after its message came."""
    return lambda: NOW + timedelta(milliseconds=2)


async def test_each_minute_is_added_once_to_every_width(opened: Opener, tmp_path: Path, clock: Any) -> None:
    """Two minutes after it is over, however often somebody looks, and over a restart; charts show it at once."""
    async with opened(clock=clock) as desk:
        await fill(desk)
        assert rows(tmp_path, 60) == COUNTED
        await roll(desk, NOW + MINUTES[2])
        with Reader(tmp_path) as reader:
            assert reader._connection.execute("SELECT COUNT(*) FROM rollup").fetchone() == (0,)
        assert rows(tmp_path, 600) == COUNTED
        for _ in range(3):
            assert not await roll(desk, NOW + MINUTES[3])
    async with opened(clock=clock) as desk:
        assert not await roll(desk, NOW + MINUTES[9])
        for width in WIDTHS:
            assert rows(tmp_path, width) == COUNTED


async def test_waits_of_nodes_add_up_and_the_deepest_queue_stays(opened: Opener, tmp_path: Path) -> None:
    """Histograms have the same buckets everywhere; a depth is no sum."""
    wait = wait_of(700)
    async with opened() as desk:
        for count, depth in ((2, 7), (3, 40), (1, 9)):
            await roll(desk, NOW, {wait: count}, depths={"d": depth})
        for width in WIDTHS:
            assert rows(tmp_path, width) == {("delivery", "d", wait.bucket): 6, ("depth", "d", 0): 40}


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
async def test_two_nodes_add_to_the_same_rows(opened: Opener, address: str, tmp_path: Path, clock: Any) -> None:
    """Each gives its own waits; what both find in the journal is added by whichever comes first."""
    wait = wait_of(3)
    other = tmp_path / "other"
    other.mkdir()
    async with opened(clock=clock) as one, open_desk(other, clock, shared=node(address, other)) as two:
        await fill(one)
        for desk in (one, two, one):
            await roll(desk, NOW + MINUTES[5], {wait: 1})
        assert rows(tmp_path, 3_600) == COUNTED | {("delivery", "d", wait.bucket): 3}


async def test_an_older_journal_is_caught_up_with_in_steps(
    opened: Opener, tmp_path: Path, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes from the oldest on, waits from the newest entry back; cut off at any step, it goes on from there."""
    monkeypatch.setattr(rollup, "ENTRIES_AT_ONCE", 2)
    now = NOW + timedelta(hours=5)
    async with opened(clock=clock) as desk:
        for hour in range(3):
            await fill(desk, at=NOW + timedelta(hours=hour), first=hour * 10 + 1)
        assert await roll(desk, now, begun=now)
    async with opened(clock=clock) as desk:
        assert await roll_all(desk, now, begun=now) > 3
        for width in (600, 3_600, 21_600):
            found = rows(tmp_path, width)
            assert found["delivery", "d", wait_of(700).bucket] == 9
            assert found["received", "adt", 0] == 18
            assert found["delivered", "d", 0] == 9


async def test_what_this_process_counts_itself_is_not_taken_from_the_journal_again(
    opened: Opener, tmp_path: Path
) -> None:
    """A delivery that ended after the process began is in its own counts."""
    async with opened() as desk:
        await fill(desk)
        wait = wait_of(700)
        await roll_all(desk, NOW + MINUTES[4], begun=NOW, waits={})
        assert ("delivery", "d", wait.bucket) not in rows(tmp_path, 600)
        await roll(desk, NOW + MINUTES[5], {wait: 3})
        assert rows(tmp_path, 600)["delivery", "d", wait.bucket] == 3


async def test_an_older_delivery_that_waited_through_an_outage_measures_nothing(opened: Opener, tmp_path: Path) -> None:
    """By the alert of its destination, which the journal keeps."""
    async with opened() as desk:
        await fill(desk, count=1)
        later = NOW + timedelta(hours=1)
        await desk.record("2", ("s|2",), received_at=NOW + MINUTES[1])
        await desk.claim(now=later)
        await desk.journal.settle(settlement(5, at=later))
        about = {"kind": "destination-down", "subject": "d"}
        await desk.journal.write(partial(alerting.open_alert, **about, detail="", now=NOW + MINUTES[2]))
        await desk.journal.write(partial(alerting.clear_alert, **about, now=later - MINUTES[1]))
        await roll_all(desk, later + MINUTES[9], begun=later + MINUTES[9])
    found = rows(tmp_path, 3_600)
    assert {key: count for key, count in found.items() if key[0] in {"delivery", "delayed"}} == {
        ("delivery", "d", wait_of(700).bucket): 1,
        ("delayed", "d", 0): 1,
    }


async def test_what_an_older_program_counted_in_ranges_is_said_to_be_coarse(opened: Opener, tmp_path: Path) -> None:
    """Its middle, in rows of every width; its deliveries are counted anew from their entries."""
    async with opened() as desk:
        minute = to_micros(NOW)
        old = "INSERT INTO answered (at, channel, milliseconds, count) VALUES (?, 'adt', 500, 4)"
        await desk.journal.write(lambda connection: connection.execute(old, (minute,)) and None)
        wide = "INSERT INTO rollup (width, at, series, who, bound, count) VALUES (600, ?, 'delivery', 'd', 500, 4)"
        await desk.journal.write(lambda connection: connection.execute(wide, (minute,)) and None)
        for width in WIDTHS:
            await roll(desk, NOW)
            with Reader(tmp_path) as reader:
                (found,) = reader.rolled(width, **WHOLE)
            assert (found.series, found.times, found.is_coarse) == ("ack", 4, True)
            assert found.bucket == bucket_of(round((200 * 500) ** 0.5 * 1_000))


async def test_names_that_senders_make_up_are_counted_together(
    opened: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many by name in six hours; then all others as one."""
    monkeypatch.setattr(tally, "MOST_NAMES", 2)
    async with opened() as desk:
        for number, source in enumerate("abcda"):
            await desk.record(f"{number}", (f"s|{number}",), source=source)
        await desk.record("9", ("s|9",), source="c", received_at=NOW + timedelta(hours=6))
    found = {who: count for (series, who, _), count in rows(tmp_path, 600).items() if series == "sender"}
    assert found == {"a": 2, "b": 1, "*": 2, "c": 1}


async def test_a_time_in_which_the_engine_was_not_seen_is_known(opened: Opener) -> None:
    """Noted once a minute; a restart is none, nor is what came before the first note."""
    async with opened() as desk:
        for minute in (0, 1, 2, 3, 40, 41):
            since = await desk.journal.write(partial(uptime.seen, now=NOW + MINUTES[minute]))
        assert since == NOW + MINUTES[40]
        found = await desk.journal.read(uptime.runs)
        assert found == ((NOW, NOW + MINUTES[3]), (NOW + MINUTES[40], NOW + MINUTES[41]))
        outages = list(uptime.stopped(found, NOW, NOW + MINUTES[42]))
        assert [(one.began_at, one.ended_at) for one in outages] == [(NOW + MINUTES[3], NOW + MINUTES[40])]
        (_, lasting) = uptime.stopped(found, NOW, NOW + MINUTES[60])
        assert (lasting.subject, lasting.began_at, lasting.ended_at) == ("engine", NOW + MINUTES[41], None)


async def test_what_no_chart_shows_any_more_goes(opened: Opener, tmp_path: Path, clock: Any) -> None:
    """Narrow rows first; of what is that old nothing is added, not even from an older journal."""
    async with opened(clock=clock) as desk:
        await fill(desk)
        await roll(desk, NOW + MINUTES[9], {wait_of(1): 1}, depths={"d": 1})
        for days, left in ((4, {600, 3_600, 21_600}), (9, {3_600, 21_600}), (41, set())):
            await roll_all(desk, NOW + timedelta(days=days))
            with Reader(tmp_path) as reader:
                found = {width for width in WIDTHS if _kept(reader, width)}
            assert found == left


def _kept(reader: Reader, width: int) -> list[Any]:
    """Return rows of a width that were written, not what the journal still counts by minute."""
    return [
        one for one in reader.rolled(width, **WHOLE) if width != 60 or one.series in {"delivery", "depth", "sender"}
    ]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_a_chart_reads_its_rows_by_their_key(opened: Opener, tmp_path: Path) -> None:
    """A step in an index, whatever else the journal holds; the same for what is added once a minute."""
    async with opened():
        pass
    with closing(sqlite3.connect(tmp_path / FILE)) as file:
        queries = (rollup.ROWS, rollup.ARRIVED, rollup.ENDED, rollup.ANSWERED, rollup.DELIVERED, rollup.BEFORE)
        for query in (*queries, tally.DELIVERIES, tally.ACKNOWLEDGEMENTS, tally.NAMES, tally.FORGET):
            plan = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {query}", (None,) * query.count("?"))]
            assert all(step.startswith(("SEARCH", "USE TEMP B-TREE")) for step in plan), (query, plan)
