"""Simulated hospital days through the whole engine: everything ends by name, and told again it changes nothing."""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.flow.feed import SYSTEM
from tests.flow.rig import Rig, running

EVENTS: Final = 500
SWEEP: Final = 2_000
SETTLE_SECONDS: Final = 300.0
SHARED: Final = frozenset({"name", "address", "telecom", "contact", "link"})
"""Lists that a first replay may still tidy: several systems write them, and who owns an item is learnt by writing it;
a link (A24) told again after one of the two was merged stands on the survivor."""

AUTHORITIES: Final = {"RVB": SYSTEM, "LKS": "https://mrn.lakeside.example"}


async def simulated(rig: Rig, events: int, seed: int) -> dict[str, Any]:
    """Let the command send a simulation to the engine and return what it tells."""
    host, port = await rig.address()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "engine", "simulate", "--to", f"{host}:{port}", "--events", str(events), "--json"),
        *("--patients", str(max(20, events // 25)), "--seed", str(seed), "--connections", "8"),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await process.communicate()
    report: dict[str, Any] = orjson.loads(said)
    assert report["messages"] == events
    return report


async def settled(rig: Rig) -> None:
    """Wait until nothing moves any more: what waits, waits behind an entry that is held."""
    await rig.until(lambda rows: not any(row.state in {"received", "claimed"} for row in rows), SETTLE_SECONDS)


async def replayed(rig: Rig) -> int:
    """Replay every delivered entry, oldest first, and wait until all have been delivered again."""
    numbers = [row.seq for row in rig.rows() if row.state == "delivered"]
    for number in numbers:
        answer = await rig.ask("messages.replay", entry=number, by="test", force=True)
        assert "error" not in answer, answer
    await settled(rig)
    return len(numbers)


@pytest.mark.timeout(900)
async def test_hospital_days_end_by_name_and_replaying_them_changes_nothing(
    tmp_path: Path, seed: int, full_sweep: bool
) -> None:
    """Every message is answered AA and ends delivered, filtered or held for a reason; a replay leaves all as it is."""
    async with running(tmp_path, authorities=AUTHORITIES) as rig:
        await rig.engine.start()
        report = await simulated(rig, SWEEP if full_sweep else EVENTS, seed)
        await settled(rig)
        assert report["totals"] == {"AA": report["messages"]}
        ends = Counter((row.state, row.reason) for row in rig.rows())
        assert {state for state, _ in ends} <= {"delivered", "filtered", "held", "waiting"}
        assert all(reason or state == "waiting" for state, reason in ends), ends
        assert sum(ends.values()) == report["messages"] - report["notes"]["duplicate"]
        before = await rig.patients()
        assert await replayed(rig) > report["messages"] // 3
        once = await rig.patients()
        assert "\n".join(changed(before, once, past=SHARED)) == ""
        await replayed(rig)
        assert "\n".join(changed(once, await rig.patients())) == ""


def changed(before: dict[str, Any], after: dict[str, Any], past: frozenset[str] = frozenset()) -> list[str]:
    """Return which elements of which resources differ, past what the server adds to each write."""
    return [
        f"Patient/{key}.{name}: {one.get(name)} became {other.get(name)}"
        for key in sorted(before.keys() | after.keys())
        for one, other in [(before.get(key, {}), after.get(key, {}))]
        for name in sorted((one.keys() | other.keys()) - past - {"meta"})
        if one.get(name) != other.get(name)
    ]
