"""What is said at one node holds at every other one: pauses, stopped channels, held merges, seen alerts, replays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engine.ops.sender.line import send_messages
from tests.flow.feed import make_feed
from tests.nodes.rig import NodesRig, nodes

CHANNEL, DESTINATION = "riverbend-adt", "interchange"
SECONDS = timedelta(seconds=20).total_seconds()


@pytest.fixture
async def rig(tmp_path: Path, journal: str) -> AsyncIterator[NodesRig]:
    """Two nodes that run, with a limit of one merge."""
    async with nodes(tmp_path, journal, 2, merge_limit={"merges": 1, "minutes": 10}) as opened:
        await opened.start()
        for node in opened.nodes:
            await node.line("started")
        yield opened


async def eventually(look: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(SECONDS):
        while not await look():  # noqa: ASYNC110 - another process makes it true
            await asyncio.sleep(0.05)


async def sent(rig: NodesRig, node: int, raw: bytes) -> str:
    """Send a message to a node; return the code of its answer."""
    return (await send_messages("127.0.0.1", await rig.nodes[node].up(), [raw]))[0].code


def person(number: int, event: str = "A28", more: str = "") -> bytes:
    """Return a message about a person."""
    head = f"MSH|^~\\&|REG|RVB|X|Y|20250701101500||ADT^{event}|{event}-{number}|P|2.5.1\rEVN||20250701101500\r"
    return f"{head}PID|1||RB-{number}^^^RVB^MR||Quintero^Marisol||19840229|F\r{more}".encode()


async def destination(rig: NodesRig, node: int) -> Any:
    """Return the destination as a node sees it."""
    return (await rig.ask_node(node, "destinations.list"))["done"][0]


async def channel(rig: NodesRig, node: int) -> Any:
    """Return the channel as a node sees it."""
    return (await rig.ask_node(node, "channels.list"))["done"][0]


async def test_a_pause_holds_at_every_node(rig: NodesRig) -> None:
    """Nobody delivers to a destination that was paused at another node; all go on once it is resumed at any."""
    await rig.ask_node(0, "destinations.pause", destination=DESTINATION, reason="upgrade")
    await eventually(lambda: _is(destination(rig, 1), "state", "paused"))
    assert await sent(rig, 1, person(1)) == "AA"
    await asyncio.sleep(1.5)
    assert [row.state for row in rig.rows()] == ["received"]
    await rig.ask_node(1, "destinations.resume", destination=DESTINATION)
    await rig.until(lambda rows: [row.state for row in rows] == ["delivered"])
    await eventually(lambda: _is(destination(rig, 0), "state", "ready"))


async def test_a_stopped_channel_listens_nowhere(rig: NodesRig) -> None:
    """Stopped at one node it takes nothing at the other; started at that one, both listen again."""
    await rig.ask_node(0, "channels.stop", channel=CHANNEL)
    await eventually(lambda: _is(channel(rig, 1), "state", "stopped"))
    await rig.ask_node(1, "channels.start", channel=CHANNEL)
    await eventually(lambda: _is(channel(rig, 0), "state", "listening"))


async def test_merges_are_counted_over_all_nodes(rig: NodesRig) -> None:
    """The second merge of a source is one too many, through whichever node it comes; let go at one it goes on."""
    for number in range(1, 5):
        assert await sent(rig, number % 2, person(number)) == "AA"
    await rig.drained()
    for node, (survivor, gone) in enumerate(((1, 2), (3, 4))):
        raw = person(survivor, "A40", f"MRG|RB-{gone}^^^RVB^MR\r")
        assert await sent(rig, node, raw) == "AA"
        await rig.until(lambda rows: rows[-1].state in {"delivered", "held"})
    assert [(row.state, row.reason) for row in rig.rows()[-2:]] == [("delivered", "merged"), ("held", "merge-limit")]
    for node in (0, 1):
        await eventually(lambda node=node: _is_not(channel(rig, node), "merges_held", None))
    await rig.ask_node(0, "channels.allow-merge", channel=CHANNEL)
    await eventually(lambda: _is(channel(rig, 1), "merges_held", None))
    await rig.ask_node(1, "messages.release", entry=rig.rows()[-1].seq)
    await rig.until(lambda rows: rows[-1].state == "delivered")


async def test_an_alert_is_one_and_acknowledged_everywhere(rig: NodesRig) -> None:
    """The pause's alert opens once, is seen at both nodes, and who has acknowledged it at one is told at the other."""
    await rig.ask_node(0, "destinations.pause", destination=DESTINATION, reason="upgrade")
    for node in (0, 1):
        await eventually(lambda node=node: _has_alert(rig, node))
    (alert,) = [one for one in (await rig.ask_node(1, "alerts.list"))["done"] if one["kind"] == "destination-paused"]
    await rig.ask_node(1, "alerts.acknowledge", alert=alert["id"])
    await eventually(lambda: _is_acknowledged(rig, 0))
    assert rig.ask_database("SELECT COUNT(*) FROM alert WHERE kind = 'destination-paused'") == [(1,)]


async def test_a_bulk_replay_goes_on_at_another_node(rig: NodesRig, seed: int) -> None:
    """A run whose node dies is taken on by one that lives, and stopped from any."""
    feed = [message.raw for message in make_feed(seed, 60, 0)]
    await send_messages("127.0.0.1", await rig.nodes[0].up(), feed)
    await rig.drained()
    started = await rig.ask_node(0, "replays.start", state="delivered", rate=2, force=True)
    assert "done" in started, started
    number = started["done"]["run"]
    await rig.nodes[0].kill()
    position = await _position(rig)
    await eventually(lambda: _is_further(rig, position))
    stopped = (await rig.ask_node(1, "replays.stop", run=number))["done"]
    assert stopped["state"] == "stopped"


async def _is(answer: Awaitable[Any], key: str, value: object) -> bool:
    return bool((await answer)[key] == value)


async def _is_not(answer: Awaitable[Any], key: str, value: object) -> bool:
    return not await _is(answer, key, value)


async def _has_alert(rig: NodesRig, node: int) -> bool:
    return any(one["kind"] == "destination-paused" for one in (await rig.ask_node(node, "alerts.list"))["done"])


async def _is_acknowledged(rig: NodesRig, node: int) -> bool:
    found = (await rig.ask_node(node, "alerts.list"))["done"]
    return any(one["kind"] == "destination-paused" and one["acknowledged_by"] for one in found)


async def _position(rig: NodesRig) -> int:
    return int((await rig.ask_node(1, "replays.list"))["done"][0]["position"])


async def _is_further(rig: NodesRig, position: int) -> bool:
    return await _position(rig) > position
