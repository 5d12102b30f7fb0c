"""Several nodes under load, killed at points drawn at random: the promises hold over all of them together."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.crash.checker import Verdict
from tests.flow.feed import make_feed
from tests.nodes.rig import nodes

CONNECTIONS = 16


@pytest.mark.parametrize("count", [1, 2, 3])
async def test_nodes_under_load(tmp_path: Path, journal: str, seed: int, count: int) -> None:
    """Without a fault: every message is delivered once, in order, by one node or another."""
    async with nodes(tmp_path, journal, count) as rig:
        sender = rig.sender(make_feed(seed, 400, 40), CONNECTIONS)
        await rig.start()
        sending = asyncio.create_task(sender.run())
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report()
        holders = rig.ask_database("SELECT COUNT(DISTINCT holder) FROM delivery WHERE state = 'delivered'")
        assert holders == [(count,)]


async def test_kills_under_load(tmp_path: Path, journal: str, seed: int) -> None:
    """No accepted message is lost, no patient made twice, no merge done twice, order kept."""
    random = Random(seed)
    answers = [random.randint(5, 40) for _ in range(8)]
    messages = sum(answers) + 300
    async with nodes(tmp_path, journal, 3) as rig:
        sender = rig.sender(make_feed(seed, messages, messages // 10), CONNECTIONS)
        await rig.start()
        sending = asyncio.create_task(sender.run())
        for count in answers:
            await rig.kill_somewhere(random, sender, count)
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID
