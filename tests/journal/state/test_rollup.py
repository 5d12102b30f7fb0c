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
from engine.journal.read.reading import Reader
from engine.journal.state import rollup
from engine.journal.state.rollup import WIDTHS, WaitBucket, roll_up, wait_of
from tests.journal.conftest import node
from tests.journal.desk import NOW, Desk, Opener, open_desk, settlement

MINUTES = [timedelta(minutes=number) for number in range(100)]
WHOLE = {"since": NOW - timedelta(days=60), "until": NOW + timedelta(days=60)}


async def roll(desk: Desk, now: datetime, waits: Mapping[WaitBucket, int] | None = None, **given: Any) -> bool:
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
    """Return what a width says over all time: by series, of whom, and bound."""
    found: Counter[tuple[str, str, int]] = Counter()
    with Reader(folder) as reader:
        for one in reader.rolled(width, **WHOLE):
            found[one.series, one.who, one.bound] += one.times
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


@pytest.mark.parametrize(
    ("milliseconds", "bound"),
    [(0, 1), (3, 5), (10_000, 10_000), (10_001, 11_000), (68_000, 68_000), (68_001, 69_000), (3_000_001, 3_060_000)],
)
async def test_an_answer_is_counted_as_a_delivery_is(opened: Opener, milliseconds: int, bound: int) -> None:
    """By the statement and by the function alike, and never up to the end of a wide range."""
    wait = timedelta(milliseconds=milliseconds)
    async with opened(clock=lambda: NOW + wait) as desk:
        seq = await desk.record("1", ("s|1",), received_at=NOW)
        desk.journal.acknowledged(seq, AckOutcome.SENT)
    async with opened() as desk:
        count = "SELECT milliseconds, count FROM answered"
        assert await desk.journal.read(lambda connection: connection.execute(count).fetchall()) == [(bound, 1)]
    assert wait_of("d", NOW, NOW + wait).bound == bound


COUNTED = {
    ("received", "adt", 0): 6,
    ("refused", "adt", 0): 1,
    ("held", "adt", 0): 1,
    ("held", "d", 0): 1,
    ("delivered", "d", 0): 3,
    ("ack", "adt", 2): 3,
}


@pytest.fixture
def clock() -> Any:
    """Give a clock of the journal by which each acknowledgement is written 2 ms after its message came."""
    return lambda: NOW + timedelta(milliseconds=2)


async def test_each_minute_is_added_once_to_every_width(opened: Opener, tmp_path: Path, clock: Any) -> None:
    """Two minutes after it is over, however often somebody looks, and over a restart; a chart of minutes has it now."""
    async with opened(clock=clock) as desk:
        await fill(desk)
        assert rows(tmp_path, 60) == COUNTED
        await roll(desk, NOW + MINUTES[2])
        assert rows(tmp_path, 600) == {}
        for _ in range(3):
            assert not await roll(desk, NOW + MINUTES[3])
    async with opened(clock=clock) as desk:
        assert not await roll(desk, NOW + MINUTES[9])
        for width in WIDTHS:
            assert rows(tmp_path, width) == COUNTED


async def test_waits_of_nodes_add_up_and_the_deepest_queue_stays(opened: Opener, tmp_path: Path) -> None:
    """Histograms have the same bounds everywhere; a depth is no sum."""
    wait = wait_of("d", NOW, NOW + timedelta(milliseconds=700))
    assert wait.bound == 1_000
    async with opened() as desk:
        for count, depth in ((2, 7), (3, 40), (1, 9)):
            await roll(desk, NOW, {wait: count}, depths={"d": depth})
        for width in WIDTHS:
            assert rows(tmp_path, width) == {("delivery", "d", 1_000): 6, ("depth", "d", 0): 40}


@pytest.mark.parametrize("address", ["postgresql"], indirect=True)
async def test_two_nodes_add_to_the_same_rows(opened: Opener, address: str, tmp_path: Path, clock: Any) -> None:
    """Each gives its own waits; what both find in the journal is added by whichever comes first."""
    wait = wait_of("d", NOW, NOW + timedelta(milliseconds=3))
    other = tmp_path / "other"
    other.mkdir()
    async with opened(clock=clock) as one, open_desk(other, clock, shared=node(address, other)) as two:
        await fill(one)
        for desk in (one, two, one):
            await roll(desk, NOW + MINUTES[5], {wait: 1})
        assert rows(tmp_path, 3_600) == COUNTED | {("delivery", "d", 5): 3}


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
            assert found["delivery", "d", 1_000] == 9
            assert found["received", "adt", 0] == 18
            assert found["delivered", "d", 0] == 9


async def test_what_this_process_counts_itself_is_not_taken_from_the_journal_again(
    opened: Opener, tmp_path: Path
) -> None:
    """A delivery that ended after the process began is in its own counts."""
    async with opened() as desk:
        await fill(desk)
        wait = wait_of("d", NOW, NOW + timedelta(milliseconds=700))
        await roll_all(desk, NOW + MINUTES[4], begun=NOW, waits={})
        assert ("delivery", "d", 1_000) not in rows(tmp_path, 600)
        await roll(desk, NOW + MINUTES[5], {wait: 3})
        assert rows(tmp_path, 600)["delivery", "d", 1_000] == 3


async def test_what_no_chart_shows_any_more_goes(opened: Opener, tmp_path: Path, clock: Any) -> None:
    """Narrow rows first; of what is that old nothing is added, not even from an older journal."""
    async with opened(clock=clock) as desk:
        await fill(desk)
        await roll(desk, NOW + MINUTES[9], {wait_of("d", NOW, NOW): 1}, depths={"d": 1})
        for days, left in ((4, {3_600, 21_600}), (16, {21_600}), (41, set())):
            await roll_all(desk, NOW + timedelta(days=days))
            with Reader(tmp_path) as reader:
                found = {width for width in WIDTHS if _kept(reader, width)}
            assert found == left


def _kept(reader: Reader, width: int) -> list[Any]:
    """Return rows of a width that were written, not what the journal still counts by minute."""
    return [one for one in reader.rolled(width, **WHOLE) if width != 60 or one.series in {"delivery", "depth"}]


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
async def test_a_chart_reads_its_rows_by_their_key(opened: Opener, tmp_path: Path) -> None:
    """A step in an index, whatever else the journal holds; the same for what is added once a minute."""
    async with opened():
        pass
    with closing(sqlite3.connect(tmp_path / FILE)) as file:
        for query in (rollup.ROWS, rollup.ARRIVED, rollup.ENDED, rollup.ANSWERED, rollup.DELIVERED, rollup.BEFORE):
            plan = [row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {query}", (None,) * query.count("?"))]
            assert all(step.startswith("SEARCH") for step in plan), (query, plan)
