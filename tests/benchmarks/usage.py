"""What a process has used, from /proc: CPU by thread, bytes written to disk, memory."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used: CPU seconds, user and system, and bytes that it caused to be written to disk.

    `threads`: CPU seconds of each thread that is alive, by its id; that of the main thread is `main`.
    """

    main: int
    cpu_seconds: float
    threads: dict[int, float]
    written_bytes: int

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Return what a process has used since its start; the bytes need the rights of its owner."""
        process = Path(f"/proc/{pid}")
        written = next(line for line in (process / "io").read_text().splitlines() if line.startswith("write_bytes"))
        return cls(
            main=pid,
            cpu_seconds=_cpu_seconds(process),
            threads={int(task.name): _cpu_seconds(task) for task in (process / "task").iterdir()},
            written_bytes=int(written.split()[1]),
        )

    def since(self, before: "Usage") -> "Usage":
        """Return what was used between two moments."""
        return Usage(
            main=self.main,
            cpu_seconds=self.cpu_seconds - before.cpu_seconds,
            threads={thread: spent - before.threads.get(thread, 0.0) for thread, spent in self.threads.items()},
            written_bytes=self.written_bytes - before.written_bytes,
        )

    def plus(self, other: "Usage") -> "Usage":
        """Return what two processes have used together."""
        return Usage(
            main=self.main,
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            threads=self.threads | other.threads,
            written_bytes=self.written_bytes + other.written_bytes,
        )

    def split(self) -> tuple[float, float, float]:
        """Return the CPU seconds of the main thread, of the busiest of the others, and of all the rest."""
        main = self.threads[self.main]
        busiest = max((spent for thread, spent in self.threads.items() if thread != self.main), default=0.0)
        return main, busiest, max(self.cpu_seconds - main - busiest, 0.0)


def memory_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def _cpu_seconds(process: Path) -> float:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_SECONDS
