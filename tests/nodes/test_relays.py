"""Several nodes and one relay in feed order: one of them sends at a time, and over kills the order stays."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.crash.relays import Relayed, judged
from tests.flow.feed import FeedMessage
from tests.nodes.rig import KILLED, NodesRig, nodes
from tests.relay.receiver import Receiver, Step
from tests.relay.rig import adt, relay

PATIENTS = [str(number) for number in range(100, 120)]
POINTS = ("F05", "F10", "F52", "F53", "F54")


def feed(random: Random, count: int) -> list[FeedMessage]:
    """Return messages about some patients; those of one go over one connection."""
    drawn = [random.choice(PATIENTS) for _ in range(count)]
    return [FeedMessage(f"K{at}", int(number), adt(f"K{at}", number), "") for at, number in enumerate(drawn)]


def violations(rig: NodesRig, receiver: Receiver, kills: int, lost: int) -> list[str]:
    """Return what is wrong with what came."""
    delivered = [row.raw for row in rig.rows("ris") if row.state == "delivered"]
    assert len(delivered) == len(rig.rows())
    return [*judged(Relayed(receiver.received, delivered, lost, senders=receiver.most_unanswered), kills)]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [0, 8])
async def test_one_relay_of_three_nodes(tmp_path: Path, journal: str, seed: int, kills: int) -> None:
    """Messages come to all nodes and leave by one at a time, in the order of the journal; lost answers repeat."""
    random = Random(seed)
    receiver = await Receiver().start()
    receiver.usual = (0.002, "AA")
    messages = feed(random, 60 * (kills or 6))
    lose: tuple[Step, ...] = ("abort",)
    for message in messages[::40]:
        receiver.on(message.control_id, lose)
    try:
        async with nodes(tmp_path, journal, 3, destinations=[relay("ris", receiver.port)]) as rig:
            await rig.start()
            sending = asyncio.create_task(rig.sender(messages, 12).run())
            for _ in range(kills):
                await kill_one(rig, random, receiver)
            await rig.start()
            await sending
            await rig.drained()
            assert violations(rig, receiver, kills, len(messages[::40])) == []
            assert all([await node.stop() == 0 for node in rig.nodes])
    finally:
        await receiver.stop()


async def kill_one(rig: NodesRig, random: Random, receiver: Receiver) -> None:
    """Start a node anew that dies at a point, or kill it once some more messages have come."""
    node = random.choice(rig.nodes)
    if node.alive:
        await node.kill()
    await node.spawn(ENGINE_FAULT=f"{random.choice(POINTS)}:kill:{random.randint(1, 20)}")
    death = asyncio.create_task(node.ended(60))
    coming = asyncio.create_task(receiver.until(len(receiver.received) + random.randint(10, 40)))
    await asyncio.wait({death, coming}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    coming.cancel()
    await asyncio.gather(coming, return_exceptions=True)
    if node.alive:
        await node.kill()
    assert await death == KILLED, node.log()
    await node.spawn()
