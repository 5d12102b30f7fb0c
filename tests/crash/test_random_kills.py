"""Killed again and again under load, at points drawn at random: the promises hold over all lives together."""

from collections import Counter
from functools import partial
from random import Random

import pytest

from tests.crash.checker import Verdict
from tests.crash.lives import Lives
from tests.flow.feed import make_feed
from tests.flow.program import Program
from tests.flow.rig import SECRET, Rig

USUAL, SWEEP = 60, 1_000
CONNECTIONS = 16


@pytest.mark.timeout(7200)
async def test_random_kills_under_load(
    rig: Rig, seed: int, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """No accepted message is lost, no patient made twice, no merge done twice, order kept."""
    random = Random(seed)
    answers = [random.randint(1, 30) for _ in range(SWEEP if full_sweep else USUAL)]
    messages = sum(answers) + 4 * len(answers)
    lives = Lives(rig, make_feed(seed, messages, messages // 10), CONNECTIONS)
    judgement = await lives.sweep(partial(lives.die_somewhere, random), answers)
    with capsys.disabled():
        if full_sweep:
            print(f"\nkills: seed {seed}, {dict(judgement.counts)}, {dict(Counter(lives.deaths))}")  # noqa: T201


async def test_killed_while_it_recovers(rig: Rig, seed: int) -> None:
    """Starts that are cut short, one after another, change nothing."""
    random = Random(seed)
    lives = Lives(rig, make_feed(seed, 120, 10), CONNECTIONS)
    try:
        await lives.die_at("F14", 10)
        for _ in range(6):
            await lives.die_while_starting(random.uniform(0.2, 1.2))
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID


async def test_stopped_under_load(rig: Rig, seed: int) -> None:
    """SIGTERM ends the engine in good order, as often as it comes; the next life goes on where the last one stopped."""
    lives = Lives(rig, make_feed(seed, 400, 20), CONNECTIONS)
    try:
        for goal in (50, 150, 250):
            await rig.engine.start()
            await lives.sender.answers(goal)
            assert await rig.engine.stop() == 0
            lives.deaths.append("stopped")
        judgement = await lives.live()
    finally:
        await lives.end()
    assert not judgement.violations, judgement.report()


async def test_a_second_engine_on_the_same_folder_is_refused(rig: Rig) -> None:
    """Two engines never write one journal: the second says so in one line and ends, the first goes on."""
    await rig.engine.start()
    second = Program(rig.folder, *rig.engine.arguments, environment={"ENGINE_SECRET": SECRET})
    await second.spawn()
    try:
        assert await second.ended() not in {0, None}
    finally:
        if second.alive:
            await second.kill()
    said = [line for line in second.said if not line.startswith(b"{")]
    assert len(said) == 1, second.log()
    assert b"data" in said[0]
    sender = rig.sender(make_feed(1, 3, 0), 1)
    await sender.run()
    await rig.drained()
