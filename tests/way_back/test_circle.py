"""Two engines in a circle, each with a service: what changes at one reaches the other once, and goes no further."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.flow.feed import SYSTEM
from tests.flow.rig import free_port
from tests.way_back.clinicians import Clinicians
from tests.way_back.rig import BACK, FEED, WayBackRig, way_back_rig

FEW, MANY, ALL = 60, 300, 10_000
BY_CHANNEL = "SELECT channel, entry.event, control_id FROM entry"
ENDED = """
SELECT entry.channel, delivery.state, delivery.reason FROM delivery JOIN entry USING (seq)
WHERE entry.channel = '{}'
"""


@pytest.mark.parametrize("changes", [FEW, pytest.param(MANY, marks=pytest.mark.process)])
async def test_no_change_goes_round(tmp_path: Path, seed: int, full_sweep: bool, changes: int) -> None:
    """Each message is about one change of a clinician, and there are as many as changes; `--full-sweep`: 10,000."""
    count = ALL if full_sweep and changes == MANY else changes
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with way_back_rig(tmp_path / "one") as one, way_back_rig(tmp_path / "two") as two:
        ports = [free_port(), free_port()]
        for rig, own, other in ((one, *ports), (two, *reversed(ports))):
            # The clinicians merge whom they like.
            rig.feed = {"listen": {"mllp": {"host": "127.0.0.1", "port": own}}, "merge_conflict": "flag"}
            rig.describe(other)
        for rig in (one, two):
            await rig.engine.start()
            await rig.engine.line("started")
        clinicians = [Clinicians(one, seed, 100_000), Clinicians(two, seed + 1, 500_000)]
        await asyncio.gather(*(each.open() for each in clinicians))
        await asyncio.gather(*(changed(each, count // 2) for each in clinicians))
        await settled(one, two)
        for rig, other in ((one, clinicians[1]), (two, clinicians[0])):
            came = [event for channel, event, _ in rig.query(BY_CHANNEL) if channel == FEED]
            assert Counter(came) == Counter(event for event, _ in other.expected)
            echoes = Counter(reason for _, state, reason in rig.query(ENDED.format(BACK)) if state == "delivered")
            assert echoes.total() == len(clinicians[0 if rig is one else 1].expected)
            ends = Counter(row[1:] if row[1] != "delivered" else "delivered" for row in rig.query(ENDED.format(FEED)))
            assert ends == {"delivered": len(other.expected)}
        assert await people(one) == await people(two)


async def changed(clinicians: Clinicians, count: int) -> None:
    """Make some changes."""
    for _ in range(count):
        await clinicians.change()


async def settled(*rigs: WayBackRig) -> None:
    """Wait until nothing is under way anywhere, and nothing comes after that."""
    before = -1
    while (now := sum(len(rig.query(BY_CHANNEL)) for rig in rigs)) != before:
        before = now
        for rig in rigs:
            await rig.drained()
            # Two rounds of the history later there is nothing new.
            await rig.rounds(2)


async def people(rig: WayBackRig) -> dict[str, tuple[str, str, str]]:
    """Return name, telephone and birth date of everybody by the number in use, but for those who were merged away."""
    found = {}
    for resource in (await rig.patients()).values():
        own = [each for each in resource.get("identifier", ()) if each.get("system") == SYSTEM]
        numbers = [each["value"] for each in own if each.get("use") != "old"]
        if resource.get("active", True) and numbers:
            name, telecom = resource["name"][0], resource.get("telecom", ())
            phones = " ".join(sorted(each["value"] for each in telecom))
            found[min(numbers)] = (name["family"], phones, resource["birthDate"])
    return found
