"""Simulated events through each server's double: killed, answers lost, the same in the end.

What the engine leaves at a server of a profile is what it leaves at a plain one without merges, undisturbed.
`--full-sweep` sends 500 events a server, else 60.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from tests.deliver.fake_chart import FakeChart
from tests.destinations.azure_like import AzureLike
from tests.destinations.google_like import GoogleLike
from tests.destinations.healthlake_like import HealthLakeLike
from tests.flow.feed import FeedMessage
from tests.flow.proxy import Call, Fault
from tests.flow.rig import Rig, channel_file, destination, write
from tests.flow.simulated_service import AUTHORITIES
from tests.interchange.nursery import ran

EVENTS: Final = 60
SWEEP: Final = 500
LOST: Final = 12
SEED: Final = 36
SECONDS: Final = 60.0


class Plain(FakeChart):
    """A server without merges that does as FHIR says."""

    def __init__(self) -> None:
        super().__init__()
        self.merges = False
        self.unique_mrn = False


SERVERS: Final[Mapping[str, type[FakeChart]]] = {"azure": AzureLike, "google": GoogleLike, "healthlake": HealthLakeLike}


class ProfileRig(Rig):
    """The engine as a process before a scripted server, through the recording proxy; no service."""

    def __init__(self, folder: Path, server: FakeChart, profile: str) -> None:
        super().__init__(folder)
        self.server = server
        self.profile = profile

    async def open(self, **channel: Any) -> "ProfileRig":
        """Start server and proxy and write the channel file; keywords override keys of the channel."""
        self.folder.mkdir()
        await self.server.start()
        await self.proxy.start(self.server.base.removesuffix("/fhir/R4"))
        there = destination(self.proxy.url, auth={"type": "none"}, profile=self.profile, retry={"first_seconds": 0.05})
        del there["if_none_exist"]
        own = {"destinations": [there], "authorities": AUTHORITIES}
        write(self.folder / "channels" / "riverbend-adt.yaml", channel_file(self.proxy.url) | own | channel)
        return self

    async def close(self) -> None:
        """End the engine and close every socket."""
        await super().close()
        await self.server.stop()


def lose_answers(rig: Rig) -> None:
    """Let each twelfth write be carried out and its answer be lost."""
    writes = itertools.count(1)

    def script(call: Call) -> Fault | None:
        lost = call.method in {"POST", "PUT"} and next(writes) % LOST == 0
        return Fault(status=504, after_commit=True) if lost else None

    rig.proxy.script = script


async def ended(rig: Rig) -> dict[str, str]:
    """Return how each message ended once nothing moves any more."""
    rows = await rig.until(lambda rows: not any(row.state in {"received", "claimed"} for row in rows), SECONDS)
    return {row.control_id: f"{row.state} {row.reason if row.state == 'held' else ''}".strip() for row in rows}


async def simulated(rig: Rig, events: int) -> list[FeedMessage]:
    """Let the command simulate a hospital to the engine, and return its messages in the order in which they came."""
    host, port = await rig.address()
    arguments = ("simulate", "--to", f"{host}:{port}", "--events", str(events), "--seed", str(SEED), "--json")
    more = ("--patients", str(max(12, events // 12)), "--connections", "4")
    done = await asyncio.to_thread(ran, *arguments, *more, timeout=SECONDS)
    assert orjson.loads(done.stdout)["totals"] == {"AA": events}
    return [FeedMessage(row.control_id, 0, row.raw, "") for row in rig.rows()]


def held(server: FakeChart) -> Counter[bytes]:
    """Return what a server holds, without ids and versions: what refers to something names its numbers instead."""
    everything = {f"Patient/{one}": body for one, body in server.patients.items()} | dict(server.chart)

    def numbers(reference: str) -> list[str]:
        body = everything.get(reference, {})
        named = [f"{one.get('system')}|{one.get('value')}" for one in body.get("identifier", ())]
        return sorted(named) or [str(body.get("name", reference.partition("/")[0]))]

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            parts = {name: plain(part) for name, part in value.items() if name not in {"id", "meta"}}
            if isinstance(value.get("reference"), str):
                parts["reference"] = numbers(value["reference"])
            return parts
        return [plain(part) for part in value] if isinstance(value, list) else value

    return Counter(orjson.dumps(plain(body), option=orjson.OPT_SORT_KEYS) for body in everything.values())


def twice(server: FakeChart) -> list[str]:
    """Return the numbers that several active records have in use: one person's national number in two charts, say."""
    counts = Counter(
        f"{number.get('system')}|{number.get('value')}"
        for body in server.patients.values()
        if body.get("active", True)
        for number in body.get("identifier", ())
        if number.get("use") != "old"
    )
    return sorted(number for number, count in counts.items() if count > 1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("profile", SERVERS)
async def test_a_server_of_a_profile_ends_as_a_plain_one_does(tmp_path: Path, profile: str, full_sweep: bool) -> None:
    """With a kill of the engine in the middle and each twelfth answer lost: 0 duplicates, 0 lost, the same states."""
    events = SWEEP if full_sweep else EVENTS
    calm = await ProfileRig(tmp_path / "plain", Plain(), "generic").open()
    rig = await ProfileRig(tmp_path / "profile", SERVERS[profile](), profile).open()
    try:
        await asyncio.gather(calm.engine.start(), rig.engine.start())
        lose_answers(rig)
        feed = await simulated(calm, events)
        wanted = await ended(calm)
        sending = asyncio.create_task(rig.sender(feed, 1).run())
        await rig.until(lambda rows: len(rows) > len(feed) // 2, SECONDS)
        await rig.engine.kill()
        await rig.engine.start()
        await sending
        assert await ended(rig) == wanted
        assert twice(rig.server) == twice(calm.server)
        a, b = held(rig.server), held(calm.server)
        assert (sorted((a - b).elements()), sorted((b - a).elements())) == ([], [])
    finally:
        await asyncio.gather(calm.close(), rig.close())
