"""Charts of a running engine: what they show outlives it."""

import asyncio
import contextlib
from typing import Any

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.rig import Rig
from tests.flow.test_retry_now import person


async def charts(rig: Rig) -> dict[str, Any]:
    """Return the series of the last hour, as soon as the engine's admin socket is there."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(FileNotFoundError, ConnectionError):
                return dict((await rig.ask("charts.show", span="1h"))["done"])
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("journal", ["sqlite", "postgresql"], indirect=True)
async def test_what_charts_show_outlives_a_restart(rig: Rig) -> None:
    """How long deliveries took is counted by the process and written as it stops; the rest stands in the journal."""
    await rig.engine.start()
    await send_messages(*await rig.address(), [person(number) for number in range(1, 6)])
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered"] * 5)
    for _life in range(2):
        assert await rig.engine.stop() == 0
        await rig.engine.start()
        await rig.address()
        found = await charts(rig)
        assert sum(filter(None, found["received"]["riverbend-adt"])) == 5
        assert sum(filter(None, found["delivered"]["interchange"])) == 5
        assert (sum(found["volume"]["sender"].values()), sum(found["volume"]["event"].values())) == (5, 5)
        assert any(found["ack_ms"]["p99"])
        assert any(found["delivery_ms"]["interchange"]["p99"])
