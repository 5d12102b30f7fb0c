"""What one message costs the engine, end to end, and how quickly it is answered.

    python -m tests.benchmarks.bench_engine [--messages N] [--patients N] [--connections N] [--concurrency N] [--json]
                                            [--resources Patient Encounter]

A real engine process with its shipped mapping and full durability takes 2 kB ADT messages over MLLP, answers each after
the commit, and writes each to a fast sink (sink.py, a process of its own): updates of patients that are in its identity
cache, each with exactly one HTTP request where patients alone are sent (`--resources`), which is the default. CPU is
that of the engine's process alone, from /proc, user and system. What it is at is told on standard error; a part in
which nothing moves for STALL_SECONDS ends it with an error, and all of it takes no longer than MOST_SECONDS.
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
import uvloop

from tests.flow.program import Program
from tests.flow.rig import channel_file

SINK: Final = Path(__file__).with_name("sink.py")
TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")
STARTS: Final = 5
STALL_SECONDS: Final = 10
MOST_SECONDS: Final = 600
START_BLOCK: Final = b"\x0b"
END_BLOCK: Final = b"\x1c\x0d"

MESSAGE: Final = Path(__file__).with_name("a08.template.hl7").read_text().replace("\n", "\r")


@dataclass(frozen=True, slots=True)
class Answered:
    """A run of messages: wall seconds until the last answer, and each answer's milliseconds, sorted."""

    seconds: float
    milliseconds: Sequence[float]

    def percentile(self, share: float) -> float:
        """Return the milliseconds within which a share of the answers came."""
        return self.milliseconds[min(int(len(self.milliseconds) * share), len(self.milliseconds) - 1)]


class Line(asyncio.Protocol):
    """One MLLP connection that sends the next message when the answer to the last has come."""

    def __init__(self, messages: Iterator[bytes], taken: list[float]) -> None:
        self._messages = messages
        self._taken = taken
        self._sent = 0.0
        self._rest = b""
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Send the first message."""
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        """Note how long the answer took and send the next message."""
        self._rest += data
        if not self._rest.endswith(END_BLOCK):
            return
        self._taken.append((time.perf_counter() - self._sent) * 1000)
        if b"\rMSA|AA|" not in self._rest and b"\rMSA|CA|" not in self._rest:
            self.done.set_exception(RuntimeError(self._rest.decode()))
            return
        self._rest = b""
        self._next()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Say that no more answers come."""
        if not self.done.done():
            self.done.set_exception(RuntimeError("the engine closed the line"))

    def _next(self) -> None:
        message = next(self._messages, None)
        if message is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(START_BLOCK + message + END_BLOCK)


class Bench:
    """An engine, its sink, and the messages made so far."""

    def __init__(self, folder: Path, patients: int, concurrency: int, resources: Sequence[str]) -> None:
        self.engine = Program(folder, "run", "--channels", "channels", "--mappings", "mappings", "--data", "data")
        self._folder = folder
        self._resources = resources
        self._patients = patients
        self._concurrency = concurrency
        self._number = 0
        self._sink: asyncio.subprocess.Process | None = None
        self._sink_url = ""

    async def open(self) -> None:
        """Start the sink and write the channel file."""
        self._sink = await asyncio.create_subprocess_exec(sys.executable, str(SINK), stdout=asyncio.subprocess.PIPE)
        assert self._sink.stdout is not None
        self._sink_url = f"http://{(await self._sink.stdout.readline()).split()[-1].decode()}"
        channel = channel_file(self._sink_url)
        channel["destinations"][0] |= {"auth": {"type": "none"}, "concurrency": self._concurrency}
        channel["acknowledgement_mode"] = "original"
        (self._folder / "channels").mkdir()
        (self._folder / "channels" / "bench.yaml").write_bytes(orjson.dumps(channel))
        (self._folder / "mappings").mkdir()
        mapping = f"mapping: adt\nextends: shipped/adt\nresources: [{', '.join(self._resources)}]\n"
        (self._folder / "mappings" / "adt.yaml").write_text(mapping)

    async def close(self) -> None:
        """End both processes."""
        if self.engine.alive:
            await self.engine.stop()
        if self._sink is not None:
            self._sink.kill()
            await self._sink.wait()

    async def send(self, count: int, connections: int) -> Answered:
        """Send so many messages, each patient's on one connection, and wait for every answer."""
        taken: list[float] = []
        hands: list[list[bytes]] = [[] for _ in range(connections)]
        for _ in range(count):
            patient = self._number % self._patients
            letters = "".join(chr(97 + int(digit)) for digit in str(patient))
            text = MESSAGE.format(number=self._number, patient=patient, letters=letters, second=self._number % 60)
            hands[patient % connections].append(text.encode())
            self._number += 1
        host, port = "127.0.0.1", await self.engine.up()
        loop = asyncio.get_running_loop()
        began = time.perf_counter()
        lines = [
            (await loop.create_connection(lambda hand=hand: Line(iter(hand), taken), host, port))[1]
            for hand in hands
            if hand
        ]
        answers = asyncio.gather(*(line.done for line in lines))
        await _moving(answers, lambda: len(taken), f"answers to {count} messages")
        return Answered(time.perf_counter() - began, sorted(taken))

    async def delivered(self, writes: int) -> dict[str, int]:
        """Wait until the sink has taken so many writes and return its counts."""
        counts: dict[str, int] = {"writes": 0}

        async def poll() -> None:
            async with aiohttp.ClientSession() as session:
                while True:
                    async with session.get(f"{self._sink_url}/count") as answer:
                        counts.update(await answer.json(content_type=None))
                    if counts["writes"] >= writes:
                        return
                    await asyncio.sleep(0.02)

        await _moving(asyncio.ensure_future(poll()), lambda: counts["writes"], f"{writes} writes to come to the sink")
        return counts

    async def settled(self) -> dict[str, int]:
        """Wait until the sink has taken nothing more for a second and return its counts."""
        before = await self.delivered(0)
        while True:
            await asyncio.sleep(1)
            after = await self.delivered(0)
            if after["writes"] == before["writes"]:
                return after
            before = after

    def cpu_seconds(self) -> dict[int, float]:
        """Return the CPU time of the engine's threads so far, user and system; the first one is the event loop."""
        stats = (path.read_text().rpartition(")")[2].split() for path in self._threads())
        return {at: (int(fields[11]) + int(fields[12])) * TICK_SECONDS for at, fields in enumerate(stats)}

    def _threads(self) -> list[Path]:
        tasks = Path(f"/proc/{self.engine.pid}/task").iterdir()
        return [task / "stat" for task in sorted(tasks, key=lambda task: int(task.name))]

    def memory_mib(self) -> float:
        """Return the resident memory of the engine's process."""
        status = Path(f"/proc/{self.engine.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024


async def _moving(work: "asyncio.Future[Any]", progress: Callable[[], int], what: str) -> None:
    """Wait for work to end; RuntimeError where its progress stands still for STALL_SECONDS."""
    seen = -1
    while not work.done():
        if progress() == seen:
            work.cancel()
            raise RuntimeError(f"{seen} so far and none more in {STALL_SECONDS} s, waiting for {what}")
        seen = progress()
        await asyncio.wait([work], timeout=STALL_SECONDS)
    await work


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run every part once and return the figures; TimeoutError after MOST_SECONDS."""
    async with asyncio.timeout(MOST_SECONDS):
        return await _measure(options)


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        bench = Bench(Path(folder), options.patients, options.concurrency, options.resources)
        await bench.open()
        try:
            _tell(f"starting the engine {STARTS} times")
            starts = [await _start_seconds(bench) for _ in range(STARTS)]
            idle = bench.memory_mib()
            _tell(f"making {options.patients} patients known, and writing each once more")
            for _ in range(2):
                await bench.send(options.patients, 8)
                before = await bench.settled()
            _tell(f"{options.messages} messages over {options.connections} connections")
            cpu, began = bench.cpu_seconds(), time.perf_counter()
            busy = await bench.send(options.messages, options.connections)
            after = await bench.delivered(before["writes"] + options.messages)
            wall, later = time.perf_counter() - began, bench.cpu_seconds()
            _tell(f"{options.messages // 2} messages over 8 connections")
            eight = await bench.send(options.messages // 2, 8)
            _tell(f"{options.messages // 4} messages one after the other")
            single = await bench.send(options.messages // 4, 1)
            loaded = bench.memory_mib()
        finally:
            await bench.close()
    spent = [(seconds - cpu.get(at, 0.0)) / options.messages * 1000 for at, seconds in later.items()]
    loop, *others = spent
    requests = {key: after[key] - before[key] for key in after}
    return {
        "resources sent": " ".join(options.resources),
        "deliveries at once": options.concurrency,
        "CPU per message, ms": round(sum(spent), 3),
        "of which event loop / journal's writer / rest (index of words), ms": (
            f"{loop:.3f} / {max(others):.3f} / {sum(others) - max(others):.3f}"
        ),
        "HTTP writes per message": round(requests["writes"] / options.messages, 3),
        "HTTP requests per message": round(requests.get("requests", 0) / options.messages, 3),
        "delivered messages a second": round(options.messages / wall),
        f"ACK at {options.connections} connections, p50 / p99 ms": _both(busy),
        "ACK at 8 connections, p50 / p99 ms": _both(eight),
        "ACK at 8 connections, messages a second": round(options.messages // 2 / eight.seconds),
        "one sender in sequence, messages a second": round(options.messages // 4 / single.seconds),
        "one sender in sequence, p50 / p99 ms": _both(single),
        "memory idle / loaded, MiB": f"{idle:.0f} / {loaded:.0f}",
        "start to listening, s (median of 5)": round(statistics.median(starts), 2),
        "message bytes": len(MESSAGE.format(number=1, patient=1, letters="a", second=1)),
    }


async def _start_seconds(bench: Bench) -> float:
    if bench.engine.alive:
        await bench.engine.stop()
    began = time.perf_counter()
    await bench.engine.start()
    return time.perf_counter() - began


def _both(answered: Answered) -> str:
    return f"{answered.percentile(0.5):.2f} / {answered.percentile(0.99):.2f}"


def machine() -> dict[str, str]:
    """Return what the figures were measured on."""
    model = next((line.partition(": ")[2] for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "machine": f"{os.cpu_count()} x {model}, {pages:.0f} GiB, {platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, uvloop {uvloop.__version__}, {_pace():.0f} ns a turn of an empty loop",
        "durability": "SQLite WAL, synchronous=FULL, ACK after the commit",
        "command": "python -m tests.benchmarks.bench_engine " + " ".join(sys.argv[1:]),
    }


def _pace() -> float:
    """Return how long a turn of an empty loop takes here, in nanoseconds: what to compare figures of machines by."""
    began = time.process_time()
    for _ in range(5_000_000):
        pass
    return (time.process_time() - began) / 5_000_000 * 1e9


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--patients", type=int, default=512)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--concurrency", type=int, default=64, help="deliveries at once; a channel's default is 16")
    parser.add_argument("--resources", nargs="+", default=["Patient"], help="FHIR types to send")
    parser.add_argument("--folder", type=Path, default=None, help="where the journal stands while measuring")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    figures = machine() | uvloop.run(measure(options))
    if options.json:
        print(json.dumps(figures, indent=2))  # noqa: T201
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value}")  # noqa: T201


if __name__ == "__main__":
    main()
