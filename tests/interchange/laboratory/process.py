"""The laboratory of the tests, run as a process: told what to do with orders, asked what came, made to send results."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.interchange.laboratory.__main__ import BEHAVIOUR, ORDERS
from tests.interchange.laboratory.answers import blocks

PROGRAM: Final = (sys.executable, "-m", "tests.interchange.laboratory")
ROOT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Laboratory:
    """A running one: its folder, and the port that it listens on."""

    folder: Path
    port: int

    @property
    def orders(self) -> list[bytes]:
        """The messages that it received, as they came."""
        file = self.folder / ORDERS
        return blocks(file.read_bytes()) if file.exists() else []

    def behave(self, *lines: str) -> None:
        """Say what it does with the next orders, one each; the last line is for all that follow."""
        (self.folder / BEHAVIOUR).write_text("\n".join(lines))

    def send(self, port: int, *options: str) -> str:
        """Let it send results to a port of this machine, and return what is answered to them: MSA-1, and ERR-8."""
        command = [*PROGRAM, "result", "--folder", str(self.folder), "--to", f"127.0.0.1:{port}", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout, done.stderr
        return done.stdout.strip()


@contextlib.contextmanager
def laboratory(folder: Path, *behaviour: str) -> Iterator[Laboratory]:
    """Run a laboratory until the block ends."""
    folder.mkdir(exist_ok=True)
    command = [*PROGRAM, "listen", "--folder", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            found = Laboratory(folder, int(run.stdout.readline().rpartition(":")[2]))
            found.behave(*(behaviour or ("AA",)))
            yield found
        finally:
            run.kill()
