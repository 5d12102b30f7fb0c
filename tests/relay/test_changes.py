"""A relay that is described anew while its messages are under way: each patient's stay in order, and none is lost."""

import asyncio

import pytest

from tests.relay.receiver import Receiver
from tests.relay.rig import RelayRig, adt, of_patient, series

COUNT, PATIENTS = 96, 6


async def test_another_address(hub: RelayRig) -> None:
    """What is under way ends at the old one; what follows goes to the new one, in order, each once."""
    old = await hub.receiver()
    new = await Receiver().start()
    hub.receivers["new"] = new
    await hub.begin()
    gate = asyncio.Event()
    old.on("K10", (gate, "AA"))
    raws = series(COUNT)
    await hub.taken(*raws[:30])
    await old.until(11)
    hub.change("ris", port=new.port)
    await hub.done("reload")
    await hub.taken(*raws[30:])
    gate.set()
    await hub.settled(COUNT)
    assert old.raws == raws[:11]
    assert new.raws == raws[11:]


@pytest.mark.parametrize("way", [("feed", "patient"), ("patient", "feed"), ("patient", "feed", "patient", "feed")])
async def test_another_order(hub: RelayRig, way: tuple[str, ...]) -> None:
    """Each patient's messages leave in order over every change; what came in feed order leaves so among itself."""
    receiver = await hub.receiver(order=way[0])
    await hub.begin()
    raws = series(COUNT, PATIENTS)
    part = COUNT // len(way)
    for at, order in enumerate(way):
        if at:
            hub.change("ris", order=order)
            await hub.done("reload")
        gate = asyncio.Event()
        receiver.on(f"K{at * part + 3}", (gate, "AA"))
        await hub.taken(*raws[at * part : (at + 1) * part])
        asyncio.get_running_loop().call_later(0.2, gate.set)
    found = await hub.settled(COUNT)
    assert {one.state for one in found} == {"delivered"}
    assert sorted(receiver.raws) == sorted(raws)
    for number in map(str, range(100, 100 + PATIENTS)):
        assert of_patient(receiver.raws, number) == of_patient(raws, number)
    for at, order in enumerate(way):
        mine = raws[at * part : (at + 1) * part]
        if order == "feed":
            assert [raw for raw in receiver.raws if raw in mine] == mine


async def test_another_order_with_something_held(hub: RelayRig) -> None:
    """What is held from before holds its patient, not the feed; released it goes, and its patient's follow."""
    receiver = await hub.receiver(order="patient")
    receiver.on("K0", ("AR",))
    await hub.begin()
    raws = series(12, 3)
    await hub.taken(*raws[:6])
    await hub.when(lambda all_: sum(one.state == "delivered" for one in all_) == 4)
    hub.change("ris", order="feed")
    await hub.done("reload")
    await hub.taken(*raws[6:])
    await hub.when(lambda all_: len(all_) == 12)
    await hub.done("messages.release", entry=1)
    await hub.settled(12)
    for number in map(str, range(100, 103)):
        mine = of_patient(receiver.raws, number)
        assert list(dict.fromkeys(mine)) == of_patient(raws, number)
    assert [raw for raw in receiver.raws if raw in raws[6:]] == raws[6:]


async def test_from_a_fhir_server_to_a_relay(hub: RelayRig) -> None:
    """A destination that was a FHIR server and is a relay now: what waited there is sent."""
    receiver = await Receiver().start()
    hub.receivers["ris"] = receiver
    hub.destinations.append({"name": "ris", "base_url": "http://127.0.0.1:9/fhir"})
    await hub.begin()
    raws = series(8)
    await hub.taken(*raws)
    hub.destinations = [{"name": "ris", "type": "mllp", "host": "127.0.0.1", "port": receiver.port}]
    hub.describe()
    await hub.done("reload")
    await hub.taken(adt("K8", "100"))
    await hub.settled(9)
    assert sorted(receiver.raws) == sorted([*raws, adt("K8", "100")])
    for number in map(str, range(100, 105)):
        assert of_patient(receiver.raws, number) == of_patient([*raws, adt("K8", "100")], number)


async def test_a_relay_that_goes(hub: RelayRig) -> None:
    """With work left it may not go; without it may."""
    await hub.receiver("first")
    second = await hub.receiver("second")
    await second.stop()
    await hub.begin()
    await hub.taken(*series(3))
    both, hub.destinations = hub.destinations, hub.destinations[:1]
    hub.describe()
    answer = await hub.ask("reload")
    assert "has unfinished work" in str(answer["error"])
    hub.destinations = both
    await second.start()
    await hub.settled(6)
    hub.destinations = both[:1]
    hub.describe()
    await hub.done("reload")
