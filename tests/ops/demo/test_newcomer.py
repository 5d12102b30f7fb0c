"""What README shows to a newcomer: the demo stays up with a feed of its own, and simulations go to it, one by one."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import pytest_asyncio

from engine.ops.operations.messages import ListMessages
from engine.ops.terminal.command import ask
from engine.ops.views.entry import RowFacts
from tests.flow.program import Program
from tests.flow.test_simulated import HELD
from tests.interchange.nursery import ran

SECONDS: Final = 280
EVENTS: Final = 200
CONNECTIONS: Final = "8"
# One of the samples is held; see samples/expected.yaml.
SAMPLES: Final = {"RVB0026": "missing-required"}
UNDER_WAY: Final = frozenset({"received", "claimed"})


@dataclass(frozen=True)
class Demo:
    """A demo that stays up: its data folder, and what it prints of where to look."""

    folder: Path
    places: str

    def found(self, pattern: str) -> str:
        """Return the first group of a pattern in what it printed."""
        match = re.search(pattern, self.places)
        assert match, self.places
        return match[1]

    @property
    def line(self) -> str:
        """Where the engine listens."""
        return self.found(r"send FILE --to (\S+)")


@pytest_asyncio.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Demo]:
    """Run a demo whose own days go on at twenty messages a second."""
    folder = tmp_path / "demo"
    program = Program(tmp_path, "demo", "--events", "100", "--rate", "20", "--data", str(folder), forked=False)
    await program.spawn()
    try:
        async with asyncio.timeout(SECONDS):
            while b"entries  " not in (said := b"".join(program.said)):
                assert program.alive, program.log()
                await asyncio.sleep(0.1)
        yield Demo(folder, said.decode())
    finally:
        assert await program.stop() == 0


async def simulated(demo: Demo, *arguments: str) -> dict[str, Any]:
    """Send a simulation to the demo and return its report."""
    given = ("simulate", "--events", str(EVENTS), "--connections", CONNECTIONS, "--to", demo.line, "--json")
    done = await asyncio.to_thread(ran, *given, *arguments, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return dict(orjson.loads(done.stdout))


async def entries(demo: Demo) -> list[RowFacts]:
    """Return every entry of the demo."""
    found, before = [], 0
    while True:
        page = await asyncio.to_thread(ask, demo.folder / "engine", ListMessages(limit=1000, before=before))
        found += page.entries
        if not page.before:
            return found
        before = page.before


async def settled(demo: Demo, count: int) -> list[RowFacts]:
    """Return the entries once the first ones, by their number, are under way no more."""
    async with asyncio.timeout(SECONDS):
        while True:
            rows = [row for row in await entries(demo) if row.entry <= count]
            if not any(row.state in UNDER_WAY for row in rows):
                return rows
            await asyncio.sleep(0.2)


def awaited(file: Path, text: str) -> str:
    """Return a file once a text is in it."""
    until = time.monotonic() + SECONDS
    while text not in (found := file.read_text("utf-8")):
        assert time.monotonic() < until, found
        time.sleep(0.1)
    return found


async def test_simulations_of_several_seeds_and_of_none_meet_nothing_of_each_other(demo: Demo) -> None:
    """All are taken, at once too; nothing is held but what a simulation intends; a number is never used twice."""
    first = await simulated(demo)
    second = await simulated(demo, "--seed", "7")
    both = await asyncio.gather(simulated(demo), simulated(demo, "--seed", "7", "--patients", "20"))
    reports = [first, second, *both]
    assert [report["totals"] for report in reports] == [{"AA": EVENTS}] * 4
    assert len({report["seed"] for report in reports}) == 3
    rows = await settled(demo, max(row.entry for row in await entries(demo)))
    held = {row.control_id: row.reason for row in rows if row.state == "held"}
    assert {one: reason for one, reason in held.items() if one in SAMPLES} == SAMPLES
    assert {reason for one, reason in held.items() if one not in SAMPLES} <= HELD.keys()
    made = [row for row in rows if re.fullmatch(r"[A-Z]{2}(7|7P20|\d{6})-\d+", row.control_id)]
    assert [row.control_id for row in made if "control-id-reused" in row.flags] == []
    assert len(made) == 4 * EVENTS - sum(report["notes"].get("duplicate", 0) for report in reports)
    assert max(Counter(row.control_id for row in made).values()) == 1
    # The same seed is the same bytes: nothing new is recorded.
    assert (await simulated(demo, "--seed", "7"))["totals"] == {"AA": EVENTS}
    again = Counter(row.control_id for row in await entries(demo) if row.control_id.startswith(("RG7-", "EM7-")))
    assert set(again.values()) == {1}


async def test_a_chart_that_changes_is_seen_by_a_subscriber_and_in_a_browser(demo: Demo) -> None:
    """A second registration of a patient is a line of the webhook's file, and the chart's pages need no password."""
    (number, family) = ("RB-9001", "Newcomer")
    message = (
        f"MSH|^~\\&|REG|RIVERBEND|ENGINE|CDIS|20260301080000||ADT^A28^ADT_A05|{{}}|P|2.5.1\r"
        f"EVN||20260301080000\rPID|1||{number}^^^RVB^MR||{family}^{{}}^^^^^L||19840229|F\rPV1|1|N\r"
    )
    for control_id, given in (("NEW-1", "Ada"), ("NEW-2", "Adela")):
        file = demo.folder / f"{control_id}.hl7"
        file.write_text(message.format(control_id, given))
        assert (await asyncio.to_thread(ran, "send", str(file), "--to", demo.line)).returncode == 0
    log = Path(demo.found(r"webhook  tail -f (\S+)"))
    text = await asyncio.to_thread(awaited, log, f"changed, version 2: Adela {family}")
    assert f"new chart: Ada {family}" in text
    charts = demo.found(r"charts   (\S+)")
    async with httpx.AsyncClient(follow_redirects=True) as client:
        page = await client.get(f"{charts}/sign-in?client=chart")
    assert "Find a patient" in page.text
