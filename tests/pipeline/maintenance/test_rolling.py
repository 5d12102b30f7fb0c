"""Rolling up beside a running engine: what could not be written waits, and is written with the next minute."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
import structlog.testing

from engine.journal.file import tables
from engine.journal.read.reading import Reader
from engine.journal.state.tally import delivery_of
from engine.pipeline.maintenance import journal
from tests.flow.test_alerts import House


async def test_a_minute_that_cannot_be_written_is_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No wait is lost or counted twice, and nothing stops for good."""
    monkeypatch.setattr(journal, "ROLL_UP_EVERY_SECONDS", 0.01)
    house = House(tmp_path)
    engine = await house.start()
    began = engine.now()
    wait = delivery_of("interchange", began, began + timedelta(milliseconds=3), delayed=False)
    engine.dispatches["interchange"].health.waits[wait] = 3
    await engine.journal.write(lambda connection: connection.execute("DROP TABLE rollup") and None)
    with structlog.testing.capture_logs() as lines:
        async with asyncio.timeout(30), journal.rolled_up(engine):
            while len([line for line in lines if line["event"] == "counts not rolled up"]) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0)
            await engine.journal.write(lambda connection: connection.execute(tables.ROLLUP[0]) and None)
    await house.stop()
    with Reader(engine.files.data) as reader:
        rows = reader.rolled(600, began - timedelta(days=1), began + timedelta(days=1))
    assert [(row.series, row.times) for row in rows if row.series == "delivery"] == [("delivery", 3)]
