"""What operators do with a relay: pause, retry, replay, shadow, dry run; each keeps the order of the feed."""

import asyncio

import pytest

from tests.relay.rig import RelayRig, adt, of_patient, series

FEED = 40


def names(first: int, after: int) -> list[str]:
    """Return control ids of a series."""
    return [f"K{number}" for number in range(first, after)]


async def finished(hub: RelayRig, run: int) -> None:
    """Wait until a run is done."""
    async with asyncio.timeout(60):
        while (await hub.done("replays.progress", run=run))["state"] == "running":  # noqa: ASYNC110
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("order", ["feed", "patient"])
async def test_a_pause(hub: RelayRig, order: str) -> None:
    """What is under way ends; nothing else starts until somebody resumes it, also after a restart; then in order."""
    receiver, other = await hub.receiver(order=order), await hub.receiver("other")
    await hub.begin()
    raws = series(FEED)
    await hub.taken(*raws[:10])
    await receiver.until(10)
    await hub.done("destinations.pause", destination="ris", reason="their upgrade")
    await hub.taken(*raws[10:20])
    await other.until(20)
    assert await hub.engine.stop() == 0
    await hub.begin()
    await hub.taken(*raws[20:])
    await other.until(FEED)
    assert sorted(receiver.ids()) == sorted(names(0, 10))
    await hub.done("destinations.resume", destination="ris")
    await hub.settled(2 * FEED)
    for number in map(str, range(100, 105)):
        assert of_patient(receiver.raws, number) == of_patient(raws, number)
    if order == "feed":
        assert receiver.raws == raws


async def test_retry_now(hub: RelayRig) -> None:
    """What waits long for its next try goes at once when somebody knows that the receiver is back."""
    receiver = await hub.receiver(retry={"first_seconds": 600, "max_seconds": 600})
    await hub.begin()
    await hub.taken(adt("K0", "100"))
    await receiver.until(1)
    await receiver.stop()
    await hub.taken(*series(9, first=1))
    await hub.when(lambda all_: any(one.tries for one in all_))
    await receiver.start()
    await hub.done("destinations.retry", destination="ris")
    await hub.settled(10)
    assert list(dict.fromkeys(receiver.ids())) == names(0, 10)


async def test_replays_go_out_next_and_in_order(hub: RelayRig) -> None:
    """Old entries that are replayed while the feed waits go before what waits, in the order of the journal."""
    receiver = await hub.receiver()
    await hub.begin()
    await hub.taken(*series(10))
    await hub.settled(10)
    gate = asyncio.Event()
    receiver.on("K10", (gate, "AA"))
    await hub.taken(*series(5, first=10))
    await receiver.until(11)
    await hub.when(lambda all_: all_[-1].control_id == "K14")
    for entry in (7, 2, 4):
        await hub.done("messages.replay", entry=entry, force=True)
    gate.set()
    await hub.settled(15)
    assert receiver.ids()[10:] == ["K10", "K1", "K3", "K6", *names(11, 15)]


async def test_a_bulk_replay(hub: RelayRig) -> None:
    """All goes out again in the order of the journal, at whatever rate; new messages leave once, in order."""
    receiver = await hub.receiver()
    await hub.begin()
    await hub.taken(*series(FEED, patients=10))
    await hub.settled(FEED)
    run = await hub.done("replays.start", state="delivered", rate=20, force=True, destination="ris")
    # All of a run is taken up at once; a newer message that came before that would refuse its patient's older ones.
    await receiver.until(FEED + 1)
    await hub.taken(*series(10, patients=10, first=FEED))
    await finished(hub, run["run"])
    await hub.settled(FEED + 10)
    came = receiver.ids()[FEED:]
    assert [name for name in came if name in names(0, FEED)] == names(0, FEED)
    assert [name for name in came if name not in names(0, FEED)] == names(FEED, FEED + 10)


@pytest.mark.parametrize("order", ["feed", "patient"])
@pytest.mark.parametrize("bulk", ["bulk", "one"])
async def test_a_relay_that_is_new_is_filled(hub: RelayRig, order: str, bulk: str) -> None:
    """What came before it was there is replayed to it in order, and to nobody else."""
    first = await hub.receiver("first")
    await hub.begin()
    raws = series(FEED)
    await hub.taken(*raws)
    await hub.settled(FEED)
    fresh = await hub.receiver("fresh", order=order)
    hub.describe()
    await hub.done("reload")
    if bulk == "bulk":
        run = await hub.done("replays.start", destination="fresh", rate=1000)
        await finished(hub, run["run"])
    else:
        await hub.done("destinations.pause", destination="fresh", reason="to fill it")
        for entry in range(FEED, 0, -1):
            await hub.done("messages.replay", entry=entry, destination="fresh", force=True)
        await hub.done("destinations.resume", destination="fresh")
    await hub.settled(2 * FEED)
    assert first.raws == raws
    assert sorted(fresh.raws) == sorted(raws)
    if order == "feed":
        assert fresh.raws == raws
    for number in map(str, range(100, 105)):
        assert of_patient(fresh.raws, number) == of_patient(raws, number)


async def test_shadow(hub: RelayRig) -> None:
    """Nothing leaves; each entry says what would; let out by a replay, it leaves."""
    receiver = await hub.receiver()
    hub.describe(mode="shadow")
    await hub.begin()
    await hub.taken(*series(3))
    found = await hub.settled(3)
    assert {(one.state, one.reason) for one in found} == {("filtered", "shadow")}
    assert receiver.connections <= 1
    assert receiver.received == []
    hub.describe(mode="live")
    await hub.done("reload")
    await hub.done("messages.replay", entry=2)
    await hub.settled(3)
    await receiver.until(1)
    assert receiver.ids() == ["K1"]


async def test_a_dry_run_shows_the_bytes(hub: RelayRig) -> None:
    """What would leave is shown, and nothing is sent."""
    receiver = await hub.receiver()
    receiver.usual = ("AR",)
    await hub.begin()
    await hub.taken(adt("K0", "100"))
    await hub.settled(1)
    view = await hub.done("messages.rehearse", entry=1)
    assert "Quintero" in str(view)
    assert "mllp://127.0.0.1" in str(view)
    assert receiver.ids() == ["K0"]
