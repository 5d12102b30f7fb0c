"""Several nodes that collapse storms of updates, killed at points drawn at random: nothing that was said is missing."""

import asyncio
from pathlib import Path
from random import Random

from tests.crash.checker import Verdict
from tests.flow.feed import make_storms
from tests.flow.rig import destination
from tests.nodes.rig import nodes

CONNECTIONS = 16


async def test_kills_while_storms_are_collapsed(tmp_path: Path, journal: str, seed: int) -> None:
    """What one node superseded and another one took over ends with the newest, or is delivered itself."""
    random = Random(seed)
    feed = make_storms(seed, 16, 5)
    async with nodes(tmp_path, journal, 3) as rig:
        own = destination(rig.proxy.url, collapse={"seconds": 0.3})
        rig.describe({"destinations": [own]})
        sender = rig.sender(feed, CONNECTIONS)
        await rig.start()
        sending = asyncio.create_task(sender.run())
        for _ in range(8):
            await rig.kill_somewhere(random, sender, random.randint(5, 25))
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID
        assert sum(row.reason == "superseded" for row in rig.rows()) > 10
