"""Faults that are no kill: a disk that fails or is full, an error of ours in the middle of one message."""

import pytest

from tests.crash.checker import Verdict
from tests.crash.lives import DEATH_SECONDS, Lives
from tests.flow.feed import make_feed
from tests.flow.rig import Rig

FAIL_STOP = 75
CONNECTIONS = 8


@pytest.mark.parametrize("fault", ["F03:eio:4", "F05:raise:4", "F08:eio:3", "F15:eio:3", "F17:raise:3"])
async def test_an_error_of_the_disk_stops_the_engine_and_loses_nothing(rig: Rig, seed: int, fault: str) -> None:
    """After a write that failed nothing more is answered: the engine ends, and the next life takes up everything.

    The counts are low enough for a busy machine, where many writes share one commit.
    """
    lives = Lives(rig, make_feed(seed, 80, 5), CONNECTIONS)
    try:
        await rig.engine.spawn(ENGINE_FAULT=fault)
        assert await rig.engine.ended(DEATH_SECONDS) == FAIL_STOP, rig.engine.log()
        lives.deaths.append(fault)
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID


async def test_a_full_disk_refuses_and_goes_on(rig: Rig, seed: int) -> None:
    """What finds no room is refused and not answered with AA; sent again, it is taken, without a restart."""
    lives = Lives(rig, make_feed(seed, 80, 5), CONNECTIONS)
    try:
        await rig.engine.start(ENGINE_FAULT="F03:enospc:7")
        await lives.sender.answers(80)
        await rig.drained()
        assert await rig.engine.stop() == 0
        lives.deaths.append("full")
        judgement = await lives.live()
    finally:
        await lives.end()
    assert any(b"|207^" in line.reply for line in lives.sender.log)
    assert not judgement.violations, judgement.report()


@pytest.mark.parametrize(
    ("point", "state", "codes"),
    [
        pytest.param("F02", "rejected", {"AA", "AR"}, id="judging"),
        pytest.param("F10", "held", {"AA"}, id="mapping"),
    ],
)
async def test_an_error_of_ours_stops_one_message_and_is_never_silent(
    rig: Rig, seed: int, point: str, state: str, codes: set[str]
) -> None:
    """Where the engine itself fails on a message, that message is kept, and every other patient flows.

    What could not be judged is refused, so that the sender knows; what was accepted is held.
    """
    feed = make_feed(seed, 60, 0)
    lives = Lives(rig, feed, CONNECTIONS)
    try:
        await rig.engine.start(ENGINE_FAULT=f"{point}:raise:9")
        await lives.sender.answers(len(feed))
        rows = await rig.until(lambda rows: all(row.state not in {"received", "claimed"} for row in rows))
    finally:
        await lives.end()
    assert rig.engine.alive
    assert {line.code for line in lives.sender.log} == codes
    assert [row.reason for row in rows if row.state == state] == ["engine-error"]
    assert sum(row.state == "delivered" for row in rows) > len(rows) // 2
    assert any(line.get("level") == "error" for line in rig.engine.lines)
