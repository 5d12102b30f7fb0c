"""A database that was restored: the journal has gone back behind what was acknowledged, and says so."""

import asyncio
from pathlib import Path

from engine.ops.sender.line import send_messages
from tests.flow.feed import make_feed
from tests.nodes.rig import nodes


async def test_a_journal_that_went_back_pauses_every_destination(tmp_path: Path, journal: str, seed: int) -> None:
    """Nothing is delivered before somebody has looked; then it goes on."""
    feed = [message.raw for message in make_feed(seed, 12, 0)]
    async with nodes(tmp_path, journal, 1) as rig:
        await rig.start()
        await send_messages("127.0.0.1", await rig.nodes[0].up(), feed[:8])
        await rig.drained()
        await rig.nodes[0].stop()
        for table in ("queue", "delivery", "payload", "named_in", "noted", "plan", "attempt", "applied", "entry"):
            rig.ask_database(f"DELETE FROM {table} WHERE seq > 4")  # noqa: S608 - as a restore to an earlier moment
        await rig.start()
        await rig.nodes[0].line("journal went back")
        await rig.nodes[0].line("started")
        (shown,) = (await rig.ask_node(0, "destinations.list"))["done"]
        assert shown["state"] == "paused"
        await send_messages("127.0.0.1", await rig.nodes[0].up(), feed[8:])
        await asyncio.sleep(1)
        states = [row.state for row in rig.rows()]
        assert states[:4] == ["delivered"] * 4
        assert len(states) == 8
        assert set(states[4:]) <= {"received", "waiting"}
        await rig.ask_node(0, "destinations.resume", destination="interchange")
        await rig.drained()
        assert await rig.nodes[0].stop() == 0
        await rig.start()
        (shown,) = (await rig.ask_node(0, "destinations.list"))["done"]
        assert shown["state"] != "paused"
