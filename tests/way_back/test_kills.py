"""Killed again and again, on both sides: each change is sent once, in order; a repeat is the same message again."""

import asyncio
import difflib
import random
from collections import Counter
from pathlib import Path

import pytest

from tests.way_back.clinicians import Clinicians
from tests.way_back.rig import WayBackRig, facts_of, way_back_rig

CHANGES = 300
KILLS = 50


async def trouble(rig: WayBackRig, seed: int, kills: int) -> Counter[str]:
    """Kill the engine and the service, and cut the receiver off, again and again; return how often each."""
    rand, counts = random.Random(seed), Counter[str]()
    while counts.total() < kills:
        kind = rand.choice(["engine", "engine", "service", "receiver"])
        counts[kind] += 1
        if kind == "engine":
            await rig.engine.kill()
            await rig.engine.start()
            await rig.engine.line("started")
        elif kind == "service":
            async with rig.quiet:
                await rig.service.kill()
                await rig.service.start()
        else:
            rig.ehr.cut()
        # The next blow falls in the midst of what goes on again.
        await rig.some(rand.randrange(1, 6))
    return counts


def differences(found: list[tuple[str, str]], expected: list[tuple[str, str]]) -> list[str]:
    """Return the lines in which what was sent differs from what had to be."""
    lines = [[" ".join(one) for one in each] for each in (expected, found)]
    return list(difflib.unified_diff(*lines, "expected", "sent", n=2, lineterm=""))


@pytest.mark.parametrize(("changes", "kills"), [(40, 6), pytest.param(CHANGES, KILLS, marks=pytest.mark.process)])
async def test_each_change_is_sent_once_through_kills(tmp_path: Path, seed: int, changes: int, kills: int) -> None:
    """Created, updated, merged, planned, moved: in the order of the changes, each once; repeats are counted."""
    async with way_back_rig(tmp_path) as rig:
        await rig.begin()
        clinicians = Clinicians(rig, seed)
        await clinicians.open()
        rand = random.Random(seed)
        for name in {f"ADT{rand.randrange(1, changes * 2)}" for _ in range(kills)}:
            rig.ehr.on(name, ("close",))
        trouble_ = asyncio.create_task(trouble(rig, seed, kills))
        for _ in range(changes):
            async with rig.quiet:
                await clinicians.change()
        rig.busy = False
        counts = await trouble_
        await rig.until_messages(len(clinicians.expected))
        differing = differences([facts_of(raw)[:2] for raw in rig.messages()], clinicians.expected)
        assert not differing, "\n".join(differing)
        repeats = len(rig.ehr.received) - len(rig.messages())
        assert repeats <= counts.total() * 16 + kills
        assert counts.total() == kills
