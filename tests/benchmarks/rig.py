"""A real engine, a fast sink for what it delivers, and a load that is sent through both and measured."""

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import psutil

from tests.benchmarks.line import Answered, Line
from tests.benchmarks.processes import cpu_of_all
from tests.benchmarks.scenarios import Scenario
from tests.benchmarks.usage import Usage, memory_mib
from tests.flow.program import Program
from tests.flow.rig import channel_file
from tests.postgresql import Postgres

HERE: Final = Path(__file__).parent
TREE: Final = HERE.parents[1]
STALL_SECONDS: Final = 30
SETTLED: Final = re.compile(r'^adt_settled_total\{.*state="([a-z]+)".*\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """The engine to be measured: the tree that it stands in, and the interpreter that runs it."""

    tree: Path = TREE
    python: str = sys.executable

    def environment(self) -> dict[str, str]:
        """Return what lets the interpreter find this tree before any that is installed."""
        return {"PYTHONPATH": str(self.tree)}

    def version(self) -> str:
        """Return the version of its Python; RuntimeError where the engine that it imports is not the tree's."""
        asked = "import engine, platform; print(platform.python_version(), engine.__file__)"
        done = subprocess.run(
            [self.python, "-c", asked], env=self.environment(), cwd="/", capture_output=True, text=True, check=False
        )
        version, _, file = done.stdout.strip().partition(" ")
        if done.returncode or not Path(file).is_relative_to(self.tree):
            raise RuntimeError(f"{self.python} does not run the engine in {self.tree}: {file} {done.stderr}")
        return version


@dataclass(frozen=True, slots=True)
class Run:
    """What sending some messages took, until the last of them was delivered.

    `memory`: MiB of the engine at each quarter of the answers. `requests` and `writes`: of HTTP, as the sink saw them.
    `database_seconds`: CPU seconds of PostgreSQL, where the journal is there.
    """

    messages: int
    answered: Answered
    delivered_seconds: float
    usage: Usage
    memory: tuple[float, ...]
    requests: int
    writes: int
    database_seconds: float = 0.0


class Bench:
    """An engine with its sink in a folder of their own, and the number of messages made so far.

    `server`: a PostgreSQL for the journal, which `nodes` engines share; messages come to all of them alike.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        source: Source,
        patients: int,
        server: Postgres | None = None,
        nodes: int = 1,
    ) -> None:
        self.engines = [
            Program(
                folder,
                *("run", "--channels", "channels", "--mappings", "mappings", "--data", f"data{number or ''}"),
                *(("--journal", server.address) if server else ()),
                environment=source.environment(),
                forked=False,
                python=source.python,
            )
            for number in range(nodes)
        ]
        self.engine = self.engines[0]
        self._server = server
        self.scenario = scenario
        self._folder = folder
        self._patients = patients
        self._number = 0
        self._sink: asyncio.subprocess.Process | None = None
        self._sink_url = ""

    async def open(self) -> None:
        """Start the sink and write channel and mapping."""
        sink = (str(HERE / "sink.py"), "--latency-ms", str(self.scenario.latency_ms))
        sink = (*sink, "--receivers", str(self.scenario.relays))
        self._sink = await asyncio.create_subprocess_exec(sys.executable, *sink, stdout=asyncio.subprocess.PIPE)
        assert self._sink.stdout is not None
        *_, ports, place = (await self._sink.stdout.readline()).decode().split()
        self._sink_url = f"http://{place}"
        channel = channel_file(self._sink_url) | {"acknowledgement_mode": "original"}
        channel["destinations"][0] |= {"auth": {"type": "none"}, "concurrency": self.scenario.concurrency}
        receivers = ports.split(",") if self.scenario.relays else []
        channel["destinations"] += [
            {"name": f"relay{at}", "type": "mllp", "host": "127.0.0.1", "port": int(port)}
            for at, port in enumerate(receivers, 1)
        ]
        (self._folder / "channels").mkdir()
        (self._folder / "channels" / "bench.yaml").write_bytes(orjson.dumps(channel))
        (self._folder / "mappings").mkdir()
        mapping = f"mapping: adt\nextends: shipped/adt\nresources: [{', '.join(self.scenario.resources)}]\n"
        (self._folder / "mappings" / "adt.yaml").write_text(mapping)

    async def close(self) -> None:
        """End both processes."""
        for engine in self.engines:
            if engine.alive:
                await engine.stop()
        if self._sink is not None:
            self._sink.kill()
            await self._sink.wait()

    async def start_seconds(self) -> float:
        """Start the engine, ending it first where it runs, and return how long it took until it listened."""
        if self.engine.alive:
            await self.engine.stop()
        began = time.perf_counter()
        await self.engine.start()
        taken = time.perf_counter() - began
        await self.engine.line("started")  # its admin socket is there by then
        return taken

    def memory_mib(self) -> float:
        """Return the resident memory of the engine."""
        return memory_mib(self.engine.pid)

    async def run(self, count: int, connections: int) -> Run:
        """Send so many messages, wait until all are delivered, and return what it took.

        RuntimeError where one ends otherwise, or where nothing moves for STALL_SECONDS.
        """
        settled, sunk = await self._settled(), await self._sunk()
        database = self._database_seconds()
        before, began = self._usage(), time.monotonic()
        answered, memory = await self._send(count, connections)
        usage, after = await self._delivered(settled + count * (1 + self.scenario.relays))
        return Run(
            messages=count,
            answered=answered,
            delivered_seconds=after["last"] - began,
            usage=usage.since(before),
            memory=memory,
            requests=after["requests"] - sunk["requests"],
            writes=after["writes"] - sunk["writes"],
            database_seconds=self._database_seconds() - database,
        )

    async def start_others(self) -> None:
        """Start the nodes beside the first one."""
        await asyncio.gather(*(engine.start() for engine in self.engines[1:]))
        await asyncio.gather(*(engine.line("started") for engine in self.engines[1:]))

    def _usage(self) -> Usage:
        return reduce(Usage.plus, (Usage.of(engine.pid) for engine in self.engines))

    def _database_seconds(self) -> float:
        if self._server is None:
            return 0.0
        return cpu_of_all(psutil.Process(self._server.pid))

    async def _send(self, count: int, connections: int) -> tuple[Answered, tuple[float, ...]]:
        taken: list[float] = []
        memory: list[float] = []
        quarters = {count * quarter // 4 for quarter in range(1, 5)}

        def take(milliseconds: float) -> None:
            taken.append(milliseconds)
            if len(taken) in quarters:
                memory.append(self.memory_mib())

        hands: list[list[tuple[int, int]]] = [[] for _ in range(connections)]
        for number in range(self._number, self._number + count):
            person = self.scenario.person(number, self._patients)
            hands[person % connections].append((number, person))
        self._number += count
        host, ports = "127.0.0.1", [await engine.up() for engine in self.engines]
        loop = asyncio.get_running_loop()
        began = time.perf_counter()
        lines = [
            (await loop.create_connection(partial(Line, self._made(hand), take), host, port))[1]
            for hand, port in zip(hands, cycle(ports), strict=False)
            if hand
        ]
        answers = asyncio.gather(*(line.done for line in lines))
        await _moving(answers, lambda: len(taken), f"answers to {count} messages")
        return Answered(time.perf_counter() - began, sorted(taken)), tuple(memory)

    def _made(self, hand: list[tuple[int, int]]) -> Iterator[bytes]:
        return (self.scenario.text(number, person).encode() for number, person in hand)

    async def _delivered(self, wanted: float) -> tuple[Usage, dict[str, Any]]:
        """Wait until so many messages are delivered; return what the engine had used then, and the sink's counts.

        The engine is asked only once the sink has been idle for a second, as the question costs it something, too.
        """
        counts: dict[str, Any] = {"requests": 0}
        found: list[Usage] = []

        async def wait() -> None:
            while True:
                counts.update(await self._sunk())
                if time.monotonic() - counts["last"] > 1:
                    found.append(self._usage())
                    if await self._settled() >= wanted:
                        return
                await asyncio.sleep(0.1)

        await _moving(
            asyncio.ensure_future(wait()),
            lambda: counts["requests"] + counts.get("blocks", 0),
            "all messages to be delivered",
        )
        return found[-1], counts

    async def _sunk(self) -> dict[str, Any]:
        async with aiohttp.ClientSession() as session, session.get(f"{self._sink_url}/count") as answer:
            return dict(await answer.json(content_type=None))

    async def _settled(self) -> float:
        """Return how many messages were delivered so far; RuntimeError where any ended otherwise."""
        return sum([await self._settled_by(number) for number in range(len(self.engines))])

    async def _settled_by(self, number: int) -> float:
        socket = self._folder / f"data{number or ''}" / "admin.sock"
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=1 << 24)
        writer.write(orjson.dumps({"do": "metrics", "with": {}}) + b"\n")
        text = orjson.loads(await reader.read())["done"]
        writer.close()
        await writer.wait_closed()
        settled: dict[str, float] = {}
        for state, value in SETTLED.findall(text):
            settled[state] = settled.get(state, 0.0) + float(value)
        if settled.keys() - {"delivered", "received"}:  # received: to be tried again
            raise RuntimeError(f"not all messages were delivered: {settled}")
        return settled.get("delivered", 0.0)


async def _moving(work: Awaitable[Any], progress: Callable[[], int], what: str) -> None:
    """Wait for work to end; RuntimeError where its progress stands still for STALL_SECONDS."""
    task, seen = asyncio.ensure_future(work), -1
    while not task.done():
        if progress() == seen:
            task.cancel()
            raise RuntimeError(f"{seen} so far and none more in {STALL_SECONDS} s, waiting for {what}")
        seen = progress()
        await asyncio.wait([task], timeout=STALL_SECONDS)
    await task
