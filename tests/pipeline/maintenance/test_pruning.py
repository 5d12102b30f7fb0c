"""Care of a running journal: what keeps one page from leaving is said, and the next round tries again."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import structlog.testing

from engine.journal.claim import clocks
from engine.pipeline.maintenance import journal
from tests.journal.desk import NOW, Desk, open_desk

LATER = NOW + timedelta(days=4000)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Give an open journal."""
    async with open_desk(tmp_path) as desk:
        yield desk


async def test_a_round_that_fails_is_said_and_tried_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row that cannot be read must not end the care for good: the disk would fill, and nobody would know."""
    monkeypatch.setattr(journal, "PRUNE_EVERY_SECONDS", 0.01)
    for number in ("1", "2"):
        seq = await desk.record(number, ("s|1",))
        await desk.claim()
        await desk.deliver(seq)
    await desk.journal.write(lambda connection: clocks.trust(connection, LATER))
    spoil, mend = ("UPDATE entry SET patients = ? WHERE seq = 1", ("[1",)), ("UPDATE entry SET patients = '[1]'", ())
    await desk.journal.write(lambda connection: connection.execute(*spoil) and None)
    with structlog.testing.capture_logs() as lines:
        async with asyncio.timeout(30), journal.pruning(desk.journal, {}, lambda: LATER):
            while not any(line["event"] == "not pruned" for line in lines):  # noqa: ASYNC110 - the log says so
                await asyncio.sleep(0)
            await desk.journal.write(lambda connection: connection.execute(*mend) and None)
            while not any(line["event"] == "pruned" for line in lines):  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert desk.failures == []


async def test_what_a_clock_far_ahead_calls_old_stays_and_that_is_said(desk: Desk) -> None:
    """No round fails silently: the log has the reason, and how far the clock is ahead."""
    for number in ("1", "2"):
        seq = await desk.record(number, ("s|1",))
        await desk.claim()
        await desk.deliver(seq)
    with structlog.testing.capture_logs() as lines:
        async with asyncio.timeout(30), journal.pruning(desk.journal, {}, lambda: LATER):
            while not lines:  # noqa: ASYNC110 - the log says so
                await asyncio.sleep(0)
    assert [(line["event"], line["reason"]) for line in lines] == [("not pruned", "clock-ahead")]
    kept = await desk.journal.read(lambda connection: connection.execute("SELECT COUNT(*) FROM payload").fetchone())
    assert kept == (2,)
