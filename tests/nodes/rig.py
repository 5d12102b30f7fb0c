"""Several nodes as a black box: service, recording proxy, PostgreSQL, and engines that share a journal there."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp

from engine.ops.access.keys import FILE as KEY
from engine.ops.access.keys import KEY_BYTES
from tests.crash.checker import History, Judgement, judge
from tests.flow.feed import FeedMessage
from tests.flow.program import Program
from tests.flow.rig import SECRET, Rig, channel_file, write
from tests.flow.sender import Sender

KILLED: Final = -9
# Where a node dies: while it receives, delivers or merges.
POINTS: Final = ("F02", "F03", "F05", "F07", "F08", "F10", "F11", "F12", "F14", "F15", "F17", "F18", "F18")


class NodesRig(Rig):
    """A rig whose journal is in PostgreSQL; `nodes` are its engines, `deaths` what befell them.

    `ways` are addresses by which single nodes, counted from 1, reach the journal.
    """

    def __init__(self, folder: Path, journal: str, count: int, ways: Mapping[int, str]) -> None:
        self.journal = journal
        super().__init__(folder)
        self._ways = ways
        self.nodes = [self._node(number) for number in range(1, count + 1)]
        self.engine = self.nodes[0]
        self.deaths: list[str] = []
        self._turn = itertools.count()

    def _node(self, number: int) -> Program:
        arguments = ("run", "--channels", "channels", "--data", f"data{number}")
        environment = {"ENGINE_SECRET": SECRET}
        key = self.folder / f"data{number}" / KEY
        key.parent.mkdir(mode=0o700, exist_ok=True)
        # As the documentation says: that of the first node is copied to each.
        if not key.exists():
            key.touch(0o600)
            key.write_bytes(b"k" * KEY_BYTES)
        journal = self._ways.get(number, self.journal)
        return Program(self.folder, *arguments, "--journal", journal, "--node", f"n{number}", environment=environment)

    async def open(self, **channel: Any) -> "NodesRig":
        """Start service and proxy and write the channel file; keywords override keys of the channel."""
        await super().open(**channel)
        return self

    def describe(self, channel: Mapping[str, Any]) -> None:
        """Write the channel file anew."""
        write(self.folder / "channels" / "riverbend-adt.yaml", channel_file(self.proxy.url) | channel)

    async def close(self) -> None:
        """End every process, whatever state it is in."""
        for node in self.nodes:
            if node.alive:
                await node.kill()
        await super().close()

    def live(self, number: int) -> int:
        """Return the incarnation of a node that lives; 0 where there is none."""
        found = self.ask_database("SELECT incarnation FROM node WHERE name = ? AND state = 'live'", (f"n{number}",))
        return int(found[0][0]) if found else 0

    def claimed(self, incarnation: int) -> int:
        """Return how many deliveries an incarnation holds."""
        asked = "SELECT COUNT(*) FROM delivery WHERE state = 'claimed' AND holder = ?"
        return int(self.ask_database(asked, (incarnation,))[0][0])

    async def sees(self, condition: Callable[[], bool], seconds: float) -> float:
        """Wait until a condition holds and return how long that took; AssertionError where it does not in time."""
        begun = time.monotonic()
        while not condition():
            assert time.monotonic() - begun < seconds, f"not within {seconds} s\n{self.logs()}"
            await asyncio.sleep(0.05)
        return time.monotonic() - begun

    async def is_ready(self, number: int) -> bool:
        """Ask a node, in its newest life, whether it takes messages."""
        assert self._session is not None
        node = self.nodes[number - 1]
        await node.line("pages listening")
        pages = next(line for line in reversed(node.lines) if line.get("event") == "pages listening")
        url = f"http://127.0.0.1:{pages['port']}/readyz"
        with contextlib.suppress(aiohttp.ClientConnectionError):
            async with self._session.get(url, timeout=aiohttp.ClientTimeout(5)) as answer:
                return answer.status == 200
        return False

    async def start(self) -> None:
        """Start all nodes that do not run, and wait until they listen."""
        resting = [node for node in self.nodes if not node.alive]
        await asyncio.gather(*(node.start() for node in resting))

    async def address(self) -> tuple[str, int]:
        """Wait until a node listens and say where; another one each time, as a load balancer does."""
        while True:
            node = self.nodes[next(self._turn) % len(self.nodes)]
            if node.alive:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.5):
                        return "127.0.0.1", await node.up()
            await asyncio.sleep(0.02)

    async def hear(self, seconds: float = 60.0) -> None:
        """Wait until every node takes messages."""
        async with asyncio.timeout(seconds):
            for number in range(1, len(self.nodes) + 1):
                await self.nodes[number - 1].up()
                while not await self.is_ready(number):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.1)

    def sender(self, feed: Sequence[FeedMessage], connections: int) -> Sender:
        """Return a sender of the feed to these nodes."""
        return Sender(feed, connections, self.address)

    async def kill_somewhere(self, random: Random, sender: Sender, answers: int, seconds: float = 60.0) -> None:
        """Start a node that will die at a point drawn at random, and kill it once so many more are answered."""
        node = random.choice(self.nodes)
        if node.alive:
            await node.kill()
        await node.spawn(ENGINE_FAULT=f"{random.choice(POINTS)}:kill:{random.randint(1, 1 + answers)}")
        goal = sender.answered + answers
        progress = asyncio.create_task(sender.answers(goal))
        death = asyncio.create_task(node.ended(seconds))
        await asyncio.wait({progress, death}, return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
        progress.cancel()
        if node.alive:
            await node.kill()
        assert await death == KILLED, node.log()
        self.deaths.append("killed")
        await node.spawn()

    async def judged(self, sender: Sender, sending: "asyncio.Task[None]") -> Judgement:
        """Wait for the end of the feed and of all work, stop the nodes, and judge everything."""
        await self.start()
        await sending
        await self.drained()
        codes = await asyncio.gather(*(node.stop() for node in self.nodes))
        assert codes == [0] * len(self.nodes), (codes, self.logs())
        patients = await self.patients()
        return judge(
            History(
                sender.log,
                self.rows(),
                self.attempts(),
                self.proxy.calls,
                patients,
                visits=await self.visits(patients),
                faults=len(self.deaths),
                least_answers=len(self.deaths),
            )
        )

    async def ask_node(self, number: int, act: str, **given: Any) -> Any:
        """Ask one of the nodes, counted from 0, over its admin socket."""
        return await self.ask_in(f"data{number + 1}", act, **given)

    def logs(self) -> str:
        """Return what the nodes said last."""
        return "\n".join(f"--- {node.arguments[-3]}\n{node.log()}" for node in self.nodes)


@contextlib.asynccontextmanager
async def nodes(
    folder: Path, journal: str, count: int, ways: Mapping[int, str] | None = None, **channel: Any
) -> AsyncIterator[NodesRig]:
    """Give a rig with service and proxy running; the test starts the nodes."""
    rig = NodesRig(folder, journal, count, ways or {})
    try:
        yield await rig.open(**channel)
    finally:
        await rig.close()
