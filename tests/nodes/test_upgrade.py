"""Nodes of two versions at one journal: an older one does not start on a newer schema, and one that runs goes on."""

import asyncio
from pathlib import Path

from tests.flow.feed import make_feed
from tests.nodes.rig import nodes

STEP = "node_9999"


async def test_an_older_node_refuses_a_newer_schema(tmp_path: Path, journal: str, seed: int) -> None:
    """It says which version to start; a node that runs already goes on, and so do its commands and pages."""
    async with nodes(tmp_path, journal, 2) as rig:
        await rig.nodes[0].start()
        rig.ask_database("INSERT INTO step (name) VALUES (?)", (STEP,))
        older = rig.nodes[1]
        await older.spawn()
        assert await older.ended() == 1
        [said] = [line for line in older.said if not line.startswith(b"{")]
        assert STEP.encode() in said, older.log()
        assert b"start that version on this node" in said
        assert not rig.live(2)
        sender = rig.sender(make_feed(seed, 40, 4), 4)
        sending = asyncio.create_task(sender.run())
        # The connection is made anew, too.
        await sender.answers(10)
        rig.ask_database(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'adt-engine n1'"
        )
        await sending
        await rig.drained()
        assert await rig.is_ready(1)
        assert await rig.nodes[0].stop() == 0
