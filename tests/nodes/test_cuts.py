"""A node that is cut from the database and not from its senders: it refuses, the others take over, it comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.crash.checker import POSITIVE, Verdict
from tests.flow.feed import make_feed
from tests.flow.sender import Sender
from tests.nodes.line import Cut, Line
from tests.nodes.rig import nodes
from tests.postgresql import Postgres

CONNECTIONS = 12
TAKEOVER_SECONDS = 15.0


@pytest.mark.parametrize("how", [Cut.RESET, Cut.SILENT], ids=["reset", "silent"])
async def test_a_node_cut_from_the_database(
    tmp_path: Path, journal: str, server: Postgres, seed: int, how: Cut
) -> None:
    """No acknowledgement comes from it, `readyz` fails, its work goes to others, and mended it is a node again."""
    line = await Line(server.port).open()
    name = journal.partition("?")[0].rpartition("/")[2]
    ways = {1: f"postgresql://postgres@127.0.0.1:{line.port}/{name}"}
    async with nodes(tmp_path, journal, 3, ways) as rig:
        try:
            sender = rig.sender(make_feed(seed, 450, 60), CONNECTIONS)
            await rig.start()
            await rig.hear()
            sending = asyncio.create_task(sender.run())
            await sender.answers(60)
            cut = rig.live(1)
            only = _sender_of_one(rig.nodes[0].listening, seed)
            line.cut(how)
            rig.deaths.append("cut")
            refused = asyncio.create_task(only.run())
            answered = sender.answered
            await rig.sees(lambda: not rig.live(1), TAKEOVER_SECONDS)
            assert not rig.claimed(cut)
            assert sender.answered > answered or sending.done()
            assert not await rig.is_ready(1)
            assert await rig.is_ready(2)
            await rig.sees(lambda: len(only.log) > 1, 10)
            assert not [one for one in only.log if one.code in POSITIVE]
            line.mend()
            await rig.sees(lambda: rig.live(1) > cut, 30)
            await rig.hear()
            refused.cancel()
            judgement = await rig.judged(sender, sending)
            assert not judgement.violations, judgement.report() + rig.logs()
            assert judgement.verdict is Verdict.VALID
        finally:
            await line.close()


def _sender_of_one(listening: Callable[[], Awaitable[int]], seed: int) -> Sender:
    """Return a sender that knows one node only."""

    async def address() -> tuple[str, int]:
        await asyncio.sleep(0.05)
        return "127.0.0.1", await listening()

    return Sender(make_feed(seed + 1, 1, 0, prefix="ZZ", first_stamp=9_000_000), 1, address)


@pytest.mark.parametrize("how", [Cut.SILENT, Cut.HALF], ids=["silent", "half"])
async def test_a_node_behind_a_partition_that_nobody_was_told_of_comes_back(
    tmp_path: Path, journal: str, server: Postgres, seed: int, how: Cut
) -> None:
    """Connections of before stay open and silent for ever; by new ones it is a node again, and takes messages."""
    line = await Line(server.port).open()
    name = journal.partition("?")[0].rpartition("/")[2]
    ways = {1: f"postgresql://postgres@127.0.0.1:{line.port}/{name}"}
    async with nodes(tmp_path, journal, 2, ways) as rig:
        try:
            sender = rig.sender(make_feed(seed, 60, 8), 4)
            await rig.start()
            await rig.hear()
            sending = asyncio.create_task(sender.run())
            await sender.answers(20)
            cut = rig.live(1)
            line.cut(how)
            rig.deaths.append("cut")
            await rig.sees(lambda: not rig.live(1), TAKEOVER_SECONDS)
            line.mend(told=False)
            await rig.sees(lambda: rig.live(1) > cut, 60)
            await rig.hear()
            judgement = await rig.judged(sender, sending)
            assert not judgement.violations, judgement.report() + rig.logs()
        finally:
            await line.close()
