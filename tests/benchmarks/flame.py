"""Where the time goes: a flame graph of the engine under load, recorded by py-spy.

    python -m tests.benchmarks.flame FILE.svg [--scenario NAME] [--messages N] [--patients N] [--connections N]
                                              [--engine TREE] [--python INTERPRETER]

Only what runs is recorded, not what waits, and only while messages of a scenario (scenarios.py) are on their way, after
a warm-up. A width is a share of the CPU of all threads together.
"""

import argparse
import asyncio
import signal
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Final

import uvloop

from tests.benchmarks.flamegraph import svg, tree
from tests.benchmarks.rig import TREE, Bench, Source
from tests.benchmarks.scenarios import SCENARIOS

# Without stopping the engine for each sample: else py-spy takes threads that wait for running ones.
RECORD: Final = ("record", "--nonblocking", "--function", "--format", "raw", "--rate", "250", "--duration", "36000")


async def record(options: argparse.Namespace) -> str:
    """Send messages of a scenario while py-spy watches, and return the graph; RuntimeError where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        source = Source(options.engine.resolve(), options.python)
        bench = Bench(Path(folder), SCENARIOS[options.scenario], source, options.patients)
        await bench.open()
        try:
            await bench.start_seconds()
            await bench.run(options.patients * 2, 8)
            raw = Path(folder) / "raw"
            spy = await asyncio.create_subprocess_exec(
                *(spy_program(), *RECORD, "--pid", str(bench.engine.pid), "--output", str(raw)),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            await bench.run(options.messages, options.connections)
            if spy.returncode is None:
                spy.send_signal(signal.SIGINT)
            said, _ = await spy.communicate()
            if not raw.exists():
                raise RuntimeError(f"py-spy recorded nothing: {said.decode()}")
            lines = await asyncio.to_thread(raw.read_text)
        finally:
            await bench.close()
    scenario = SCENARIOS[options.scenario]
    graph = tree(lines.splitlines())
    title = f"{scenario.about}; {options.messages} messages, {options.connections} connections"
    return svg(graph, f"{title}; {graph.samples} samples of what used the CPU")


def spy_program() -> str:
    """Return the path of py-spy beside this interpreter; SystemExit where it is not installed."""
    program = Path(sysconfig.get_path("scripts")) / "py-spy"
    if not program.exists():
        sys.exit(f"py-spy is not installed: {sys.executable} -m pip install py-spy")
    return str(program)


def main() -> None:
    """Record, and write the SVG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the SVG to write")
    parser.add_argument("--scenario", choices=[*SCENARIOS], default="known")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--patients", type=int, default=512)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--engine", type=Path, default=TREE, metavar="TREE", help="checkout whose engine is recorded")
    parser.add_argument("--python", default=sys.executable, metavar="INTERPRETER", help="what runs the engine")
    options = parser.parse_args()
    spy_program()
    options.file.write_text(uvloop.run(record(options)))


if __name__ == "__main__":
    main()
