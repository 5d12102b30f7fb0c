"""What figures were measured on, so that those of two machines are not taken for comparable."""

import os
import platform
import sys
import time
from pathlib import Path

import uvloop


def machine() -> dict[str, str]:
    """Return the machine, this Python with its pace, the durability, and the command that is running."""
    model = next((line.partition(": ")[2] for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return {
        "machine": f"{os.cpu_count()} x {model}, {pages:.0f} GiB, {platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, uvloop {uvloop.__version__}, {_pace():.0f} ns a turn of an empty loop",
        "durability": "SQLite WAL, synchronous=FULL, ACK after the commit",
        "command": " ".join(("python -m", f"tests.benchmarks.{Path(sys.argv[0]).stem}", *sys.argv[1:])),
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
