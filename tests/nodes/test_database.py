"""The database goes away and comes back, and connections to it are killed in whatever they are about."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.crash.checker import POSITIVE, Verdict
from tests.flow.feed import make_feed
from tests.nodes.rig import nodes
from tests.postgresql import Postgres

CONNECTIONS = 16
OUTAGE_SECONDS, SWEEP_SECONDS = 5.0, 30.0
KILLS = 60
# The exit code of an engine whose journal failed.
FAILED = 75
# Ends one connection of those that nodes have to this database, or all of one kind.
TERMINATE = """
SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE ? AND (? = '' OR query = ?)
"""
# Ends the connection of a writer that has done everything but its commit.
BEFORE_COMMIT = """
SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'adt-engine n1' AND xact_start IS NOT NULL
  AND wait_event = 'ClientRead' AND GREATEST(query_start, state_change) < clock_timestamp() - interval '0.05 s'
"""


async def test_the_database_stops_and_comes_back(
    tmp_path: Path, journal: str, server: Postgres, seed: int, full_sweep: bool
) -> None:
    """Nothing is acknowledged meanwhile, and afterwards every node goes on as it is."""
    async with nodes(tmp_path, journal, 3) as rig:
        sender = rig.sender(make_feed(seed, 500, 50), CONNECTIONS)
        await rig.start()
        await rig.hear()
        pids = [node.pid for node in rig.nodes]
        before = [rig.live(number) for number in (1, 2, 3)]
        sending = asyncio.create_task(sender.run())
        await sender.answers(100)
        await asyncio.to_thread(server.stop, immediate=True)
        rig.deaths.append("database")
        down = len(sender.log)
        for number in (1, 2, 3):
            while await rig.is_ready(number):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)
        await asyncio.sleep(SWEEP_SECONDS if full_sweep else OUTAGE_SECONDS)
        meanwhile = [line for line in sender.log[down + CONNECTIONS :] if line.code or line.reply]
        assert not [line for line in meanwhile if line.code in POSITIVE]
        assert len(sender.log) > down + CONNECTIONS, "nobody was refused"
        await asyncio.to_thread(server.start)
        await rig.hear()
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID
        assert [node.lives for node in rig.nodes] == [1, 1, 1]
        assert [node.pid for node in rig.nodes] == pids
        assert rig.ask_database("SELECT MAX(incarnation) FROM node") == [(max(before),)]


@pytest.mark.parametrize("what", ["COMMIT", ""], ids=["committing", "anywhere"])
async def test_connections_killed_under_load(tmp_path: Path, journal: str, seed: int, what: str) -> None:
    """Killed in a commit or anywhere else: nothing that was acknowledged is missing, and nothing is there twice."""
    random = Random(seed)
    async with nodes(tmp_path, journal, 3) as rig:
        sender = rig.sender(make_feed(seed, 450, 60), CONNECTIONS)
        await rig.start()
        sending = asyncio.create_task(sender.run())
        struck = 0
        while struck < KILLS and not sending.done():
            name = random.choice(("adt-engine n_", "adt-engine n1", "adt-engine n_ lease", "adt-engine reader"))
            [(count,)] = rig.ask_database(TERMINATE, (name if not what else "adt-engine n_", what, what))
            struck += count
            rig.deaths += ["terminated"] * count
            await asyncio.sleep(random.random() * (0.005 if what else 0.3))
        assert struck >= KILLS // 4
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()
        assert [node.lives for node in rig.nodes] == [1, 1, 1]


async def test_a_commit_that_never_arrived(tmp_path: Path, journal: str, seed: int) -> None:
    """The connection is gone when the commit is sent: what was undone is not acknowledged, and is written again."""
    async with nodes(tmp_path, journal, 1) as rig:
        sender = rig.sender(make_feed(seed, 60, 6), 8)
        await rig.nodes[0].start(ENGINE_FAULT="F08:slow:2")
        sending = asyncio.create_task(sender.run())
        while not rig.ask_database(BEFORE_COMMIT)[0][0]:
            assert not sending.done(), rig.logs()
            await asyncio.sleep(0.01)
        rig.deaths.append("terminated")
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID


@pytest.mark.parametrize("has_work", [True, False], ids=["at work", "idle"])
async def test_a_node_that_is_stopped_while_the_database_is_away_ends(
    tmp_path: Path, journal: str, server: Postgres, seed: int, *, has_work: bool
) -> None:
    """It does not wait for what may never come back, says that its journal failed, and the next start does the rest."""
    async with nodes(tmp_path, journal, 1) as rig:
        sender = rig.sender(make_feed(seed, 120, 20), CONNECTIONS)
        await rig.start()
        await rig.hear()
        sending = asyncio.create_task(sender.run())
        if has_work:
            await sender.answers(40)
        else:
            await sending
            await rig.drained()
        await asyncio.to_thread(server.stop, immediate=True)
        rig.deaths.append("database")
        assert await rig.nodes[0].stop() == FAILED, rig.logs()
        await asyncio.to_thread(server.start)
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()
