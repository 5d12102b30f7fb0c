"""Killed with relays under way: each receiver gets all in the journal's order, and few messages twice."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from tests.crash.checker import Verdict
from tests.crash.lives import DELIVERING, Lives
from tests.crash.relays import Relayed, judged, repeats
from tests.flow.feed import make_feed
from tests.flow.rig import Rig, channel_file, write
from tests.relay.receiver import Received, Receiver, Step
from tests.relay.rig import RelayRig, adt, relay, relaying

RELAYING = ("F52", "F53", "F54")
USUAL, MANY = 10, 100
PATIENTS = [str(number) for number in range(100, 112)]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RelayRig]:
    """An engine that relays."""
    async with relaying(tmp_path) as rig:
        yield rig


def relayed(rig: RelayRig, name: str, lost: int = 0, patients: list[str] | None = None) -> Relayed:
    """Return what one receiver got and what the journal says of it."""
    receiver = rig.receivers[name]
    return Relayed(receiver.received, rig.raws(name), lost, patients or (), receiver.most_unanswered)


async def killed(
    hub: RelayRig, random: Random, kills: int, between: int, points: tuple[str, ...], lose: float = 0.0
) -> int:
    """Send a feed over many connections while the engine is killed again and again; return how many answers were lost.

    Half of the kills are at a fault point, the others wherever the engine is.
    """
    receivers = [*hub.receivers.values()]
    raws = [adt(f"K{at}", random.choice(PATIENTS)) for at in range(kills * between)]
    lost = 0
    for at in range(0, len(raws), 7):
        if random.random() < lose:
            steps: tuple[Step, ...] = (random.choice(("close", "abort", "garbage")),)
            for receiver in receivers:
                receiver.on(f"K{at}", steps)
            lost += 1
    sender = hub.sender_of(raws, 8)
    hub.describe()
    sending = asyncio.create_task(sender.run())
    try:
        for number in range(kills):
            fault = {"ENGINE_FAULT": f"{random.choice(points)}:kill:{random.randint(1, between)}"} if number % 2 else {}
            await hub.engine.spawn(**fault)
            goal = len(receivers[0].received) + random.randint(1, between)
            coming = asyncio.create_task(receivers[0].until(min(goal, len(raws) - 1), 30))
            death = asyncio.create_task(hub.engine.ended(60))
            await asyncio.wait({coming, death, sending}, return_when=asyncio.FIRST_COMPLETED)
            await hub.engine.kill()
            assert await death == -9, hub.engine.log()
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await hub.engine.start()
        await sending
        await hub.drained()
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    assert {one.state for one in hub.deliveries()} == {"delivered"}
    assert {row.raw for row in hub.rows()} == set(raws)
    return lost


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "kills",
    [pytest.param(USUAL, marks=pytest.mark.smoke, id="a few"), pytest.param(MANY, id="a hundred")],
)
async def test_a_feed_with_kills(hub: RelayRig, seed: int, kills: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Without repeats each receiver has the journal's order; repeats follow kills and lost answers only, few a kill."""
    random = Random(seed)
    await hub.receiver("ris")
    await hub.receiver("lab", order="patient", connections=4)
    lost = await killed(hub, random, kills, 12, (*RELAYING, "F10", "F15", "F17"), lose=0.5)
    found = [relayed(hub, "ris", lost), relayed(hub, "lab", lost, PATIENTS)]
    violations = [violation for one in found for violation in judged(one, kills)]
    assert not violations, violations[:10]
    counts = [repeats([each.raw for each in one.received]) for one in found]
    with capsys.disabled():
        if kills == MANY:
            said = ", ".join(f"{one.count} repeats of {len(each.delivered)}, over at most {max(one.back, default=0)}"
                             for one, each in zip(counts, found, strict=True))  # fmt: skip
            print(f"\nrelays: seed {seed}, {kills} kills, {lost} lost answers: {said}")  # noqa: T201


@pytest.mark.parametrize("point", [*RELAYING, "F10"])
@pytest.mark.parametrize("order", ["feed", "patient"])
async def test_killed_at_each_point_of_a_relay(hub: RelayRig, point: str, order: str) -> None:
    """Before a send nothing is repeated; after it, what was sent and not settled is."""
    receiver = await hub.receiver(order=order)
    hub.describe()
    raws = [adt(f"K{at}", PATIENTS[at % 3]) for at in range(12)]
    sending = asyncio.create_task(hub.sender_of(raws).run())
    for nth in (1, 4):
        await hub.engine.spawn(ENGINE_FAULT=f"{point}:kill:{nth}")
        assert await hub.engine.ended() == -9
    await hub.engine.start()
    await sending
    await hub.settled(len(raws))
    found = relayed(hub, "ris", patients=PATIENTS[:3] if order == "patient" else None)
    assert [*judged(found, 2)] == []
    if order == "feed":
        assert receiver.most_unanswered == 1


async def test_relays_beside_a_server_at_every_point(rig: Rig, seed: int) -> None:
    """The points of delivering to a FHIR server, with two relays on the same feed: every promise holds of all three."""
    receivers = {name: await Receiver().start() for name in ("ris", "lab")}
    usual = channel_file(rig.proxy.url)
    relays = [relay("ris", receivers["ris"].port), relay("lab", receivers["lab"].port, order="patient")]
    write(rig.folder / "channels" / "riverbend-adt.yaml", usual | {"destinations": [*usual["destinations"], *relays]})
    deaths = [(point, 3) for point in (*DELIVERING, *RELAYING)]
    lives = Lives(rig, make_feed(seed, 20 * len(deaths), 2 * len(deaths)), connections=8)
    lives.relays, lives.by_patient = {"ris": receivers["ris"]}, {"lab": receivers["lab"]}
    try:
        for point, nth in deaths:
            await lives.die_at(point, nth)
        judgement = await lives.live()
    finally:
        await lives.end()
        for receiver in receivers.values():
            await receiver.stop()
    assert not judgement.violations, judgement.report()
    assert judgement.verdict is Verdict.VALID


A, B, C = (Received(1, adt(name, "100")) for name in "ABC")


@pytest.mark.parametrize(
    ("received", "kills", "invariant"),
    [
        ((A, B), 1, "I10"),
        ((A, B, C, Received(1, adt("D", "100"))), 1, "I10"),
        ((A, C, B), 1, "I11"),
        ((A, B, B, C), 0, "I12"),
        ((A, B, C, A), 1, ""),
        ((A, B, A, B, C), 1, ""),
    ],
)
def test_the_judge_of_relays(received: tuple[Received, ...], kills: int, invariant: str) -> None:
    """An honest history is valid, and each wrong one is found under its invariant."""
    found = [*judged(Relayed(received, [A.raw, B.raw, C.raw]), kills)]
    assert {one[:3] for one in found} == ({invariant} if invariant else set())


def test_the_judge_sees_how_far_a_repeat_goes_back() -> None:
    """Further than what may be unsettled is no repeat of a kill; two senders at once are none of one feed."""
    many = [Received(1, adt(f"K{at}", "100")) for at in range(20)]
    raws = [one.raw for one in many]
    assert [one[:3] for one in judged(Relayed([*many, many[0]], raws), 9)] == ["I12"]
    assert [one[:3] for one in judged(Relayed(many, raws, senders=2), 9)] == ["I13"]
    assert [*judged(Relayed(many, raws, patients=["100"], senders=4), 0)] == []
