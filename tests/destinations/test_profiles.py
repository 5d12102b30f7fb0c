"""Simulated events through the double of each server: killed, answers lost, the same in the end.

One engine delivers each event to all of them. What it leaves at a server of a profile is what another engine leaves at
a plain one without merges, undisturbed. `--full-sweep` sends 500 events, else 60.
"""

import asyncio
import itertools
from collections import Counter
from pathlib import Path
from typing import Final

import orjson
import pytest

from tests.deliver.fake_chart import FakeChart
from tests.destinations.aidbox_like import AidboxLike
from tests.destinations.double_rig import SERVERS, Ending, ProfilesRig, content_of, kept
from tests.destinations.server_like import ServerLike
from tests.flow.feed import FeedMessage
from tests.flow.proxy import Call, Fault, Proxy
from tests.flow.rig import Rig
from tests.flow.simulated_service import AUTHORITIES
from tests.interchange.nursery import ran

EVENTS: Final = 60
SWEEP: Final = 500
LOST: Final = 12
SEED: Final = 36
SECONDS: Final = 300.0


def lose_answers(proxy: Proxy) -> None:
    """Let each twelfth write be carried out and its answer be lost."""
    writes = itertools.count(1)

    def script(call: Call) -> Fault | None:
        lost = call.method in {"POST", "PUT"} and next(writes) % LOST == 0
        return Fault(status=504, after_commit=True) if lost else None

    proxy.script = script


async def ended(rig: ProfilesRig) -> dict[str, dict[str, Ending]]:
    """Return how each message ended at each destination once nothing moves any more."""
    await rig.until(lambda rows: not any(row.state in {"received", "claimed"} for row in rows), SECONDS)
    return {
        name: {
            control_id: Ending(end.state, end.reason if end.state == "held" else "") for control_id, end in ends.items()
        }
        for name, ends in rig.ends().items()
    }


async def simulated(rig: Rig, events: int) -> list[FeedMessage]:
    """Let the command simulate a hospital to the engine, and return its messages in the order in which they came."""
    host, port = await rig.address()
    arguments = ("simulate", "--to", f"{host}:{port}", "--events", str(events), "--seed", str(SEED), "--json")
    more = ("--patients", str(max(12, events // 12)), "--connections", "4")
    done = await asyncio.to_thread(ran, *arguments, *more, timeout=SECONDS)
    assert orjson.loads(done.stdout)["totals"] == {"AA": events}
    return [FeedMessage(row.control_id, 0, row.raw, "") for row in rig.rows()]


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


def left(server: FakeChart, plain: FakeChart) -> tuple[list[bytes], list[bytes]]:
    """Return what a server holds and the plain one does not, and the other way round."""
    mine, theirs = content_of(kept(server)), content_of(kept(plain))
    return sorted((mine - theirs).elements()), sorted((theirs - mine).elements())


@pytest.mark.timeout(900)
async def test_each_server_of_a_profile_ends_as_a_plain_one_does(tmp_path: Path, full_sweep: bool) -> None:
    """With a kill of the engine in the middle and each twelfth answer lost: 0 duplicates, 0 lost, the same states."""
    plain = ServerLike(transactions=False, update_create=None)
    doubles = {name: kind() for name, kind in SERVERS.items()}
    if isinstance(aidbox := doubles["aidbox"], AidboxLike):
        aidbox.collides_each = LOST + 1
    calm = await ProfilesRig(tmp_path / "plain", {"generic": plain}).open(authorities=AUTHORITIES)
    rig = await ProfilesRig(tmp_path / "profiles", doubles).open(authorities=AUTHORITIES)
    for proxy in rig.proxies.values():
        lose_answers(proxy)
    try:
        await asyncio.gather(calm.engine.start(), rig.engine.start())
        feed = await simulated(calm, SWEEP if full_sweep else EVENTS)
        wanted = (await ended(calm))["generic"]
        sending = asyncio.create_task(rig.sender(feed, 1).run())
        await rig.until(lambda rows: len({row.seq for row in rows}) > len(feed) // 2, SECONDS)
        await rig.engine.kill()
        await rig.engine.start()
        await sending
        assert await ended(rig) == dict.fromkeys(doubles, wanted)
        assert {name: twice(double) for name, double in doubles.items()} == dict.fromkeys(doubles, twice(plain))
        assert {name: left(double, plain) for name, double in doubles.items()} == dict.fromkeys(doubles, ([], []))
        assert all(proxy.faults for proxy in rig.proxies.values())
        assert aidbox.collisions
    finally:
        await asyncio.gather(calm.close(), rig.close())
