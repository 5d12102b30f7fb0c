"""A node that stands still, alone or with the turn in its hands, and one that wakes up after it was given up."""

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from psycopg import Connection

from engine.database.postgresql import connect
from engine.journal.nodes.schema import TURN_LOCK
from tests.crash.checker import Verdict
from tests.flow.feed import make_feed
from tests.nodes.rig import NodesRig, nodes

CONNECTIONS = 16
# Longer than a lease lasts, and than others take to see that it has ended.
PAUSE_SECONDS, SWEEP_SECONDS = 15.0, 20.0
# What "a few seconds" are: the database ends a turn that stands still after three.
TURN_SECONDS = 10.0


async def test_a_node_that_wakes_up_begins_anew(tmp_path: Path, journal: str, seed: int, full_sweep: bool) -> None:
    """It settles and writes nothing of what others have taken over, and comes back by itself as a new incarnation."""
    async with nodes(tmp_path, journal, 3) as rig:
        # So many that the others are still at work when what this node had sent has arrived.
        sender = rig.sender(make_feed(seed, 900, 120), CONNECTIONS)
        await rig.start()
        sending = asyncio.create_task(sender.run())
        await sender.answers(60)
        await rig.sees(lambda: len(_tokens(rig, 0)) == 3, 20)
        before = rig.live(1)
        rig.nodes[0].pause()
        await asyncio.sleep(1)
        arrived = len(rig.proxy.calls)
        await rig.sees(lambda: len(_tokens(rig, arrived)) == 2, 20)
        await rig.sees(lambda: rig.live(1) == 0, 2 * PAUSE_SECONDS)
        await asyncio.sleep(SWEEP_SECONDS - PAUSE_SECONDS if full_sweep else 0)
        [old] = _tokens(rig, 0) - _tokens(rig, arrived)
        woken = len(rig.proxy.calls)
        rig.nodes[0].resume()
        rig.deaths.append("paused")
        await rig.sees(lambda: rig.live(1) > before, 30)
        await rig.hear()
        judgement = await rig.judged(sender, sending)
        late = [call for call in rig.proxy.calls[woken:] if call.method != "GET" and _token(call.headers) == old]
        assert not late, [(call.method, call.path, call.status) for call in late]
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID


@pytest.mark.parametrize("point", ["F03", "F08", "F15"])
async def test_a_turn_that_stands_still_is_ended(tmp_path: Path, journal: str, seed: int, point: str) -> None:
    """A node hangs within its transaction: the others go on, and what it had written in it is nowhere."""
    async with nodes(tmp_path, journal, 2) as rig:
        # So many that the other node is still at work by then.
        sender = rig.sender(make_feed(seed, 300, 30), CONNECTIONS)
        await rig.nodes[0].start(ENGINE_FAULT=f"{point}:hang:3")
        await rig.nodes[1].start()
        sending = asyncio.create_task(sender.run())
        await rig.sees(lambda: bool(_standing(rig)), 30)
        answered = sender.answered
        await rig.sees(lambda: sender.answered > answered + 10 or sending.done(), TURN_SECONDS)
        await rig.nodes[0].kill()
        rig.deaths.append("hung")
        judgement = await rig.judged(sender, sending)
        assert not judgement.violations, judgement.report() + rig.logs()


@pytest.mark.parametrize("where", ["between", "sending", "reading"])
async def test_whoever_keeps_the_turn_loses_it(tmp_path: Path, journal: str, seed: int, where: str) -> None:
    """The others go on whatever a node was about when it stopped: between two statements, or in the middle of one."""
    async with nodes(tmp_path, journal, 2) as rig:
        sender = rig.sender(make_feed(seed, 60, 6), 4)
        await rig.start()
        options = "-c idle_in_transaction_session_timeout=3s -c statement_timeout=30s"
        with contextlib.closing(connect(journal, options=options)) as keeper:
            keeper.execute("BEGIN")
            keeper.execute("SELECT pg_advisory_xact_lock(?)", (TURN_LOCK,))
            _stand_still(keeper.inner, where)
            async with asyncio.timeout(TURN_SECONDS):
                await rig.sender(make_feed(seed + 1, 1, 0, prefix="ZZ", first_stamp=9_000_000), 1).run()
        await sender.run()
        await rig.drained()


def _stand_still(keeper: "Connection[tuple[object, ...]]", where: str) -> None:
    """Leave a connection as a process does that is stopped while it sends a statement, or reads what it asked for."""
    if where == "reading":
        keeper.pgconn.send_query(b"SELECT repeat('x', 1000000) FROM generate_series(1, 100)")
        keeper.pgconn.flush()
    elif where == "sending":
        keeper.pgconn.enter_pipeline_mode()
        keeper.pgconn.send_query_params(b"SELECT 1", None)
        keeper.pgconn.send_flush_request()
        keeper.pgconn.flush()


def _standing(rig: NodesRig) -> list[tuple[object, ...]]:
    return rig.ask_database(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'adt-engine n1' AND xact_start IS NOT NULL "
        "AND wait_event = 'ClientRead' AND GREATEST(query_start, state_change) < clock_timestamp() - interval '0.5 s'"
    )


def _tokens(rig: NodesRig, first: int) -> set[str]:
    """Return the tokens that the destination saw from a call on: each process fetches one of its own."""
    return {token for call in rig.proxy.calls[first:] if (token := _token(call.headers))}


def _token(headers: Mapping[str, str]) -> str:
    value = headers.get("Authorization", "")
    return value if value.startswith("Bearer ") else ""
