"""Everything that may befall nodes and their database, drawn at random."""

import asyncio
import time
from random import Random

from tests.flow.program import Program
from tests.flow.sender import Sender
from tests.nodes.rig import KILLED, POINTS, NodesRig
from tests.postgresql import Postgres

# What strikes, and how often.
FAULTS = {"kill": 8, "kill somewhere": 6, "pause": 8, "terminate": 12, "commit": 6, "stop": 2, "database": 2}
# Ends connections of nodes to this database, of one kind and in one statement.
TERMINATE = """
SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name LIKE ? AND query LIKE ?
"""
# A node whose database is away when it begins ends with this; whatever looks after services starts it again.
UNUSABLE = 1
# Longer than any pause lasts, and what follows it.
STILL_SECONDS = 90.0
# How a node that is asked to stop may end: in order, before it could, or at the point where it was to be killed.
ENDED = {0, UNUSABLE, -15, KILLED}


class Storm:
    """Strikes nodes and server; each fault that happened is noted in the rig's `deaths`.

    `paused`: how many seconds the longest pause lasts.
    """

    def __init__(self, rig: NodesRig, server: Postgres, random: Random, paused: float) -> None:
        self._rig = rig
        self._server = server
        self._random = random
        self._paused = paused
        self._waking: set[asyncio.Task[None]] = set()
        self._still: set[Program] = set()

    async def strike(self) -> None:
        """Let one thing happen."""
        [fault] = self._random.choices([*FAULTS], [*FAULTS.values()])
        node = self._random.choice(self._rig.nodes)
        match fault:
            case "kill" | "kill somewhere":
                await self._kill(node, somewhere=fault != "kill")
            case "pause" if node.alive and node not in self._still:
                self._pause(node)
            case "stop" if node.alive and node not in self._still:
                assert await node.stop() in ENDED, node.log()
                self._rig.deaths.append("stopped")
                await node.spawn()
            case "database":
                await self._restart()
            case _:
                if not self._terminate("COMMIT" if fault == "commit" else "%"):
                    await self._kill(node, somewhere=False)

    async def pass_over(self, sender: Sender, goal: int, sending: "asyncio.Task[None]") -> None:
        """Go on until so many messages are answered; nodes that ended are started again."""
        progress = asyncio.create_task(sender.answers(goal))
        until = time.monotonic() + STILL_SECONDS
        while not progress.done():
            await asyncio.wait({progress, sending}, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
                break
            assert time.monotonic() < until, f"nothing moves after {self._rig.deaths[-5:]}\n{self._rig.logs()}"
            await self._mind()
        progress.cancel()

    async def calm(self) -> None:
        """Wait until nothing stands still any more, and kill all nodes at once: their next lives have no faults."""
        await asyncio.gather(*self._waking)
        for node in self._rig.nodes:
            if node.alive:
                await node.kill()
                self._rig.deaths.append("killed")

    async def _mind(self) -> None:
        for node in self._rig.nodes:
            if not node.alive:
                code = await node.ended()
                assert code in {KILLED, UNUSABLE}, (code, node.log())
                if code == KILLED:
                    self._rig.deaths.append("killed")
                await node.spawn()

    async def _kill(self, node: Program, *, somewhere: bool) -> None:
        """Kill a node now, or at a point that it comes to in its next life."""
        if node.alive:
            await node.kill()
            self._rig.deaths.append("killed")
        fault = f"{self._random.choice(POINTS)}:kill:{self._random.randint(1, 12)}"
        await node.spawn(**({"ENGINE_FAULT": fault} if somewhere else {}))

    def _pause(self, node: Program) -> None:
        seconds = self._random.choice((0.3, 1.0, 3.5, self._paused))
        node.pause()
        self._still.add(node)
        self._rig.deaths.append("paused long" if seconds == self._paused else "paused")
        task = asyncio.create_task(self._wake(node, seconds))
        self._waking.add(task)
        task.add_done_callback(self._waking.discard)

    async def _wake(self, node: Program, seconds: float) -> None:
        await asyncio.sleep(seconds)
        node.resume()
        self._still.discard(node)

    def _terminate(self, query: str) -> int:
        name = self._random.choice(("adt-engine n1", "adt-engine n_", "adt-engine n_ lease", "adt-engine%"))
        [(count,)] = self._rig.ask_database(TERMINATE, (name, query))
        self._rig.deaths += ["terminated"] * count
        return int(count)

    async def _restart(self) -> None:
        await asyncio.to_thread(self._server.stop, immediate=self._random.random() < 0.5)
        await asyncio.sleep(self._random.choice((0.0, 0.5, 2.0)))
        await asyncio.to_thread(self._server.start)
        self._rig.deaths.append("database")
