"""What one message costs the engine, end to end, and how quickly it is answered.

    python -m tests.benchmarks.bench_engine [--scenario NAME ...] [--messages N] [--journal-entries N] [--json]
                                            [--patients N] [--connections N] [--concurrency N] [--latency-ms N]
                                            [--resources TYPE ...]
                                            [--engine TREE] [--python INTERPRETER] [--folder DIR]
                                            [--postgresql] [--nodes N]

A real engine process with its shipped mapping and full durability takes ADT messages over MLLP, answers each after the
commit, and writes what they say to a fast sink (sink.py, a process of its own). What is sent stands in scenarios.py;
`known` is the default, `all` is each of them. After a warm-up of two messages a patient come the messages over many
connections, half as many over 8, and a quarter as many over one. CPU, memory and bytes written are those of the
engine's process alone, from /proc. What it is at is told on standard error.
"""

import argparse
import asyncio
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import uvloop

from tests.benchmarks.figures import Figure, table, to_json
from tests.benchmarks.machine import machine
from tests.benchmarks.rig import HERE, TREE, Bench, Run, Source
from tests.benchmarks.scenarios import SCENARIOS, Scenario
from tests.postgresql import a_postgres

MOST_FILES: Final = 4096


async def measure(scenario: Scenario, options: argparse.Namespace) -> dict[str, Figure]:
    """Run every part of a scenario once and return the figures."""
    source = Source(options.engine, options.python)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder, contextlib.ExitStack() as stack:
        server = stack.enter_context(a_postgres(on_disk=True)) if options.postgresql else None
        if server is not None:
            server.start()
        if options.journal_entries:
            _tell(f"filling the journal with {options.journal_entries} entries")
            await asyncio.to_thread(_fill, Path(folder) / "data", options.journal_entries, source)
        bench = Bench(Path(folder), scenario, source, options.patients, server, options.nodes)
        await bench.open()
        try:
            _tell(f"{scenario.name}: starting the engine {options.starts} times")
            starts = [await bench.start_seconds() for _ in range(options.starts)]
            idle = bench.memory_mib()
            await bench.start_others()
            _tell("warming up")
            await bench.run(options.patients * 2, 8)
            runs = {}
            for name, messages, connections in (
                (f"{options.connections} connections", options.messages, options.connections),
                ("8 connections", options.messages // 2, 8),
                ("one sender", options.messages // 4, 1),
            ):
                _tell(f"{name}: {messages} messages")
                runs[name] = await bench.run(messages, connections)
            loaded = bench.memory_mib()
        finally:
            await bench.close()
    figures: dict[str, Figure] = {}
    for name, run in runs.items():
        figures |= {f"{name}: {what}": figure for what, figure in _figures(run, scenario, options.nodes).items()}
    quarters = zip(("1/4", "2/4", "3/4", "4/4"), next(iter(runs.values())).memory, strict=False)
    memory = {"idle": idle} | {f"after {part} of the messages": mib for part, mib in quarters} | {"at the end": loaded}
    return {
        **figures,
        **{f"memory {when}": Figure(mib, "MiB") for when, mib in memory.items()},
        "start to listening, median": Figure(statistics.median(starts), "s"),
        "size of a message": Figure(len(scenario.text(2, scenario.person(2, options.patients))), "bytes"),
    }


def _figures(run: Run, scenario: Scenario, nodes: int) -> dict[str, Figure]:
    count, delivered = run.messages, run.messages / run.delivered_seconds
    loop, writer, rest = run.usage.split()
    figures = {
        "ACK p50": Figure(run.answered.percentile(0.5), "ms"),
        "ACK p99": Figure(run.answered.percentile(0.99), "ms"),
        "answered": Figure(count / run.answered.seconds, "/s"),
        "delivered": Figure(delivered, "/s"),
        "CPU per message": Figure(run.usage.cpu_seconds / count * 1000, "ms"),
        "CPU per message, event loop": Figure(loop / count * 1000, "ms"),
        "CPU per message, journal's writer": Figure(writer / count * 1000, "ms"),
        "CPU per message, other threads": Figure(rest / count * 1000, "ms"),
        "written to disk per message": Figure(run.usage.written_bytes / count / 1024, "KiB"),
        "HTTP requests per message": Figure(run.requests / count),
        "HTTP writes per message": Figure(run.writes / count),
    }
    if run.database_seconds:
        figures["PostgreSQL's CPU per message"] = Figure(run.database_seconds / count * 1000, "ms")
    if scenario.latency_ms:
        most = nodes * scenario.concurrency * 1000 / scenario.latency_ms
        figures["delivered of what latency and concurrency allow"] = Figure(delivered / most * 100, "%")
    return figures


def _fill(data: Path, entries: int, source: Source) -> None:
    """Fill a journal by the tree that is measured, as its schema may be another one than this tree's."""
    command = [source.python, str(HERE / "old_entries.py"), str(data), str(entries)]
    subprocess.run(command, env=source.environment(), stdout=sys.stderr, check=True)


def _tell(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201


def arguments() -> argparse.ArgumentParser:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    told = "; ".join(f"{one.name}: {one.about}" for one in SCENARIOS.values())
    names = [*SCENARIOS, "all"]
    parser.add_argument("--scenario", action="append", choices=names, help=f"may be repeated; all, or {told}")
    parser.add_argument("--messages", type=int, default=10_000, help="at least 4")
    parser.add_argument("--patients", type=int, default=512)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--concurrency", type=int, help="deliveries at once; a channel's default is 16")
    parser.add_argument("--latency-ms", type=float, help="what the destination takes for a request")
    parser.add_argument("--resources", nargs="+", help="FHIR types to send")
    parser.add_argument("--journal-entries", type=int, default=0, help="old entries in the journal")
    parser.add_argument("--postgresql", action="store_true", help="the journal on a PostgreSQL of its own")
    parser.add_argument("--nodes", type=int, default=1, help="engines that share it")
    parser.add_argument("--starts", type=int, default=5, help="how often the engine is started to time it")
    parser.add_argument("--engine", type=Path, default=TREE, metavar="TREE", help="checkout whose engine is measured")
    parser.add_argument("--python", default=sys.executable, metavar="INTERPRETER", help="what runs the engine")
    parser.add_argument("--folder", type=Path, help="where the journal stands while measuring")
    parser.add_argument("--json", action="store_true")
    return parser


def main() -> None:
    """Measure and print a table for each scenario."""
    options = arguments().parse_args()
    options.engine = options.engine.resolve()
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    about = machine() | {"engine's Python": Source(options.engine, options.python).version()}
    names = dict.fromkeys(options.scenario or ["known"])
    given: dict[str, Any] = {name: getattr(options, name) for name in ("concurrency", "latency_ms", "resources")}
    given = {name: value for name, value in given.items() if value}
    found = {}
    for scenario in SCENARIOS.values() if "all" in names else map(SCENARIOS.__getitem__, names):
        found[scenario.name] = uvloop.run(measure(replace(scenario, **given), options))
    if options.json:
        scenarios = {name: to_json(figures) for name, figures in found.items()}
        print(json.dumps({"about": about, "scenarios": scenarios}, indent=2))  # noqa: T201
        return
    print(table(about))  # noqa: T201
    for name, figures in found.items():
        print(f"\n{name}: {SCENARIOS[name].about}\n{table(figures)}")  # noqa: T201


if __name__ == "__main__":
    main()
