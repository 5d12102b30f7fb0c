"""How quickly the operators' pages answer on a long journal with browsers open, and what that costs the senders.

    python -m tests.benchmarks.bench_pages [--journal-entries 100000] [--browsers 5] [--messages 3000] [--rate 100]

An engine with a journal of old entries takes messages over 8 connections at a steady rate: first alone, then with
browsers, each with the overview live and going from page to page, with a second between two. The browsers are a process
of their own, so that what they compute does not keep the senders from reading their answers. Printed: p50 and p95 of
each page, the first time included, and of the answers to senders p50 and p99 without the browsers, while each page is
opened for the first time, and afterwards.
"""

import argparse
import asyncio
import multiprocessing
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from engine.ops.socket.client import ask_by_name
from tests.benchmarks.bench_engine import _fill
from tests.benchmarks.figures import Figure, table
from tests.benchmarks.line import END_BLOCK, START_BLOCK
from tests.benchmarks.machine import machine
from tests.benchmarks.rig import Bench, Source
from tests.benchmarks.scenarios import SCENARIOS
from tests.flow.program import Program
from tests.ops.web.person import Person

CONNECTIONS: Final = 8
PATIENTS: Final = 64
THINK_SECONDS: Final = 1.0
SPAWN: Final = multiprocessing.get_context("spawn")
# `{entry}` is the first message that is sent.
PAGES: Final = (
    "/overview", "/overview?span=24h", "/messages", "/messages?state=held", "/messages/{entry}",
    "/messages/{entry}/explain", "/messages/{entry}/patient", "/lanes", "/runs", "/channels", "/codes",
    "/duplicates", "/alerts", "/reasons", "/help",
)  # fmt: skip


class Load:
    """Messages at a steady rate over some connections; `milliseconds` of each answer."""

    def __init__(self, bench: Bench, port: int, rate: float) -> None:
        self._bench = bench
        self._port = port
        self._pause = CONNECTIONS / rate
        self._number = 0

    async def run(self, count: int) -> list[float]:
        """Send so many messages, and return how many milliseconds each answer took, sorted."""
        taken: list[float] = []
        await asyncio.gather(*(self._line(count // CONNECTIONS, taken) for _ in range(CONNECTIONS)))
        return sorted(taken)

    async def _line(self, count: int, taken: list[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        scenario = self._bench.scenario
        for _ in range(count):
            self._number += 1
            text = scenario.text(self._number, scenario.person(self._number, PATIENTS)).encode()
            began = time.perf_counter()
            writer.write(START_BLOCK + text + END_BLOCK)
            answer = await reader.readuntil(END_BLOCK)
            taken.append((time.perf_counter() - began) * 1000)
            if b"\rMSA|AA|" not in answer and b"\rMSA|CA|" not in answer:
                raise RuntimeError(answer.decode())
            await asyncio.sleep(max(began + self._pause - time.perf_counter(), 0))
        writer.close()


class Browser:
    """Somebody at the pages: the overview live in one tab, and from page to page in another."""

    def __init__(self, person: Person, entry: int, taken: dict[str, list[float]]) -> None:
        self._person = person
        self._entry = entry
        self._taken = taken

    async def work(self, after: float) -> None:
        """Go from page to page until cancelled; nobody begins at the same moment as another."""
        await asyncio.sleep(after)
        live = asyncio.create_task(self._live())
        try:
            while True:
                for page in PAGES:
                    began = time.perf_counter()
                    answer = await self._person.get(page.format(entry=self._entry))
                    self._taken[page].append((time.perf_counter() - began) * 1000)
                    answer.raise_for_status()
                    await asyncio.sleep(THINK_SECONDS)
        finally:
            live.cancel()
            with suppress(asyncio.CancelledError):
                await live

    async def _live(self) -> None:
        async with self._person.http.stream("GET", "/live/overview", timeout=None) as stream:
            async for _line in stream.aiter_lines():
                pass


async def _account(port: int, token: str, name: str) -> Person:
    person = Person(port)
    answer = await person.set_up(token, name)
    if answer.status_code != 303:
        raise RuntimeError(answer.text)
    return person


async def _browse(port: int, tokens: Sequence[str], entry: int, pipe: Connection) -> None:
    """Work with so many browsers until something comes through the pipe, then send what each page took."""
    taken: dict[str, list[float]] = defaultdict(list)
    people = [await _account(port, token, f"b{number}") for number, token in enumerate(tokens)]
    pipe.send("here")
    between = THINK_SECONDS / len(people)
    work = [
        asyncio.create_task(Browser(person, entry, taken).work(number * between))
        for number, person in enumerate(people)
    ]
    await asyncio.to_thread(pipe.recv)
    for task in work:
        task.cancel()
    for ended in await asyncio.gather(*work, return_exceptions=True):
        if not isinstance(ended, asyncio.CancelledError):
            raise RuntimeError("a browser met an error") from ended  # type: ignore[misc]
    await asyncio.gather(*(person.close() for person in people))
    pipe.send(dict(taken))


def browse(port: int, tokens: Sequence[str], entry: int, pipe: Connection) -> None:
    """Be the process of the browsers; it yields to engine and senders, as other people's machines would not be felt."""
    os.nice(19)
    asyncio.run(_browse(port, tokens, entry, pipe))


def _percentile(milliseconds: list[float], share: float) -> float:
    return sorted(milliseconds)[min(int(len(milliseconds) * share), len(milliseconds) - 1)]


async def measure(options: argparse.Namespace) -> dict[str, Figure]:
    """Measure, and return the figures."""
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        bench = Bench(Path(folder), SCENARIOS["known"], Source(), PATIENTS)
        options_of_run = (
            "--channels",
            "channels",
            "--mappings",
            "mappings",
            "--data",
            "data",
            "--admin",
            "127.0.0.1:0",
        )
        bench.engines[:] = [Program(Path(folder), "run", *options_of_run, forked=False)]
        (engine,) = bench.engines
        try:
            await bench.open()
            _fill(Path(folder) / "data", options.journal_entries, Source())
            await engine.start()
            await engine.line("started")
            pages, mllp = (await engine.line("pages listening"))["port"], await engine.up()
            load = Load(bench, mllp, options.rate)
            await load.run(options.messages // 4)
            alone = await load.run(options.messages)
            tokens = []
            for number in range(options.browsers):
                wanted = {"name": f"b{number}", "role": "operator"}
                invited = await asyncio.to_thread(ask_by_name, Path(folder) / "data", "users.add", wanted)
                tokens.append(str(invited["token"]))
            here, there = SPAWN.Pipe()
            process = SPAWN.Process(target=browse, args=(pages, tokens, options.journal_entries + 1, there))
            process.start()
            there.close()
            await asyncio.to_thread(here.recv)
            opening = await load.run(options.messages // 2)
            watched = await load.run(options.messages)
            here.send("enough")
            taken = await asyncio.to_thread(here.recv)
            process.join()
        finally:
            await bench.close()
    figures = {}
    for page, milliseconds in taken.items():
        figures[f"{page} p50"] = Figure(_percentile(milliseconds, 0.5), "ms")
        figures[f"{page} p95"] = Figure(_percentile(milliseconds, 0.95), "ms")
    for name, answers in (("alone", alone), ("as browsers open", opening), ("with browsers", watched)):
        figures[f"ACK p50, {name}"] = Figure(_percentile(answers, 0.5), "ms")
        figures[f"ACK p99, {name}"] = Figure(_percentile(answers, 0.99), "ms")
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal-entries", type=int, default=100_000)
    parser.add_argument("--browsers", type=int, default=5)
    parser.add_argument("--messages", type=int, default=3_000, help="of each of the two runs")
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second")
    figures = asyncio.run(measure(parser.parse_args()))
    sys.stdout.write(f"{table(machine())}\n\n{table(figures)}\n")


if __name__ == "__main__":
    main()
