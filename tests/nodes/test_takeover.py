"""What a node leaves behind is taken over: within 15 s of its death, and before it has ended where it was stopped."""

import asyncio
import time
from pathlib import Path

from tests.crash.checker import Verdict
from tests.flow.feed import make_feed
from tests.flow.proxy import Call, Fault
from tests.flow.sender import Sender
from tests.nodes.rig import NodesRig, nodes

TAKEOVER_SECONDS = 15.0
# No answer for longer than any node of these tests lives.
HANGS = Fault(wait_seconds=45, drop=True)


async def test_taken_over_within_15_seconds(tmp_path: Path, journal: str, seed: int) -> None:
    """A node is killed while all that it has under way waits for an answer: the others do that work, once."""
    async with nodes(tmp_path, journal, 3) as rig:
        sender, killed = await _hanging(rig, seed)
        await rig.nodes[0].kill()
        at = time.monotonic()
        rig.deaths.append("killed")
        await rig.sees(lambda: not rig.claimed(killed), TAKEOVER_SECONDS)
        assert any(line.get("event") == "node expired" for node in rig.nodes[1:] for line in node.lines)
        await rig.drained(TAKEOVER_SECONDS)
        assert time.monotonic() - at < TAKEOVER_SECONDS
        judgement = await rig.judged(sender, asyncio.create_task(asyncio.sleep(0)))
        assert not judgement.violations, judgement.report() + rig.logs()
        assert judgement.verdict is Verdict.VALID


async def test_taken_over_at_once_after_a_stop(tmp_path: Path, journal: str, seed: int) -> None:
    """A node that is stopped gives back what it has under way before it ends."""
    async with nodes(tmp_path, journal, 2) as rig:
        sender, stopped = await _hanging(rig, seed)
        assert await rig.nodes[0].stop() == 0
        assert not rig.claimed(stopped)
        rig.deaths.append("stopped")
        judgement = await rig.judged(sender, asyncio.create_task(asyncio.sleep(0)))
        assert not judgement.violations, judgement.report() + rig.logs()


async def _hanging(rig: NodesRig, seed: int) -> tuple[Sender, int]:
    """Let the first node have work under way that gets no answer, then start the others."""

    def hang(call: Call) -> Fault | None:
        return HANGS if call.writes else None

    rig.proxy.script = hang
    feed = make_feed(seed, 40, 4)
    sender = rig.sender(feed, 8)
    await rig.nodes[0].start()
    await sender.run()
    first = rig.live(1)
    await rig.sees(lambda: rig.claimed(first) > 1 and sum(call.writes for call in rig.proxy.calls) > 1, 20)
    rig.proxy.script = lambda _call: None
    rig.engine = rig.nodes[1]
    await rig.start()
    return sender, first
