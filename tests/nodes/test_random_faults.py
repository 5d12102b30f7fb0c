"""Three nodes under load while everything fails at random: the promises hold over all of them together."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from tests.crash.checker import Verdict
from tests.flow.feed import make_feed
from tests.nodes.rig import NodesRig, nodes
from tests.nodes.storm import Storm
from tests.postgresql import Postgres

USUAL, SWEEP = 30, 1_000
CONNECTIONS = 16
# What an invariant's number means to a hospital.
HARMS = {"lost": ("I1", "I2"), "reordered": ("I5",), "doubled": ("I4",), "wrongly merged": ("I6",)}


@pytest.mark.timeout(7200)
async def test_random_faults_under_load(
    tmp_path: Path, journal: str, server: Postgres, seed: int, full_sweep: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed, paused, disconnected and without a database, again and again: nothing is lost, doubled or disordered."""
    random = Random(seed)
    answers = [random.randint(1, 12) for _ in range(SWEEP if full_sweep else USUAL)]
    messages = sum(answers) + 4 * len(answers)
    async with nodes(tmp_path, journal, 3) as rig:
        sender = rig.sender(make_feed(seed, messages, messages // 10), CONNECTIONS)
        await rig.start()
        sending = asyncio.create_task(sender.run())
        storm = Storm(rig, server, random, paused=14.0 if full_sweep else 4.0)
        for count in answers:
            await storm.strike()
            await storm.pass_over(sender, sender.answered + count, sending)
        await storm.calm()
        judgement = await rig.judged(sender, sending)
        with capsys.disabled():
            if full_sweep or judgement.violations:
                print(f"\nfaults: seed {seed}, {told(rig, judgement.counts, judgement.violations)}")  # noqa: T201
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID
        assert judgement.counts["faults"] >= len(answers)


def told(rig: NodesRig, counts: Mapping[str, int], violations: tuple[str, ...]) -> str:
    """Return what there was of everything, and what became of it."""
    [(incarnations,)] = rig.ask_database("SELECT MAX(incarnation) FROM node")
    harms = {harm: sum(violation.startswith(numbers) for violation in violations) for harm, numbers in HARMS.items()}
    return (
        f"{dict(counts)}, {dict(Counter(rig.deaths))}, incarnations {incarnations}, {harms}, {len(violations)} in all"
    )
