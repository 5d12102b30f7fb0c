"""Services that start in a tenth of the time: forked from one process that has imported everything already.

A child runs the same command as `adt-engine interchange`, in a process of its own with signals of its own; what it
spares is the import, 0.5 s of processor time at each start.
"""

import atexit
import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import orjson

from engine.fhir.schema import FhirVersion, defects
from engine.ops.interchange import app

ROOT = Path(__file__).resolve().parents[2]


class Child:
    """A process of the nursery, to be used like a `subprocess.Popen`."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self._nursery = nursery
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return how it ended, negative for a signal; None while it runs."""
        if self.returncode is None:
            self.returncode = self._nursery.ask({"ended": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Return how it ended, within some seconds."""
        until = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("interchange", timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that children are forked from; it ends, and they with it, when the tests do."""

    def __init__(self, environment: dict[str, str]) -> None:
        program = [sys.executable, "-c", "from tests.interchange.nursery import tend; tend()"]
        self._run = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT)
        atexit.register(self._run.communicate)

    def ask(self, question: dict[str, object]) -> int | None:
        """Send a line, and return what is answered."""
        assert self._run.stdin is not None
        assert self._run.stdout is not None
        self._run.stdin.write(orjson.dumps(question) + b"\n")
        self._run.stdin.flush()
        answer: int | None = orjson.loads(self._run.stdout.readline())
        return answer


@cache
def nursery(secret: str) -> Nursery:
    """Return the nursery of this test run; its children read `ENGINE_SECRET` as given."""
    return Nursery({**os.environ, "ENGINE_SECRET": secret})


def fork(arguments: list[str], out: Path, log: Path, secret: str) -> Child:
    """Start the command with these arguments; its output and its log go to files."""
    of = nursery(secret)
    pid = of.ask({"arguments": arguments, "out": str(out), "log": str(log)})
    assert pid is not None
    return Child(of, pid)


def tend() -> None:
    """Fork children as asked for, line by line, and tell how they ended, until there are no more lines."""
    for version in FhirVersion:
        defects({"resourceType": "Patient"}, version)
    gc.freeze()
    living: set[int] = set()
    for line in sys.stdin:
        asked = orjson.loads(line)
        answer: int | None = None
        if "ended" in asked:
            ended, status = os.waitpid(asked["ended"], os.WNOHANG)
            if ended:
                living.discard(ended)
                answer = os.waitstatus_to_exitcode(status)
        else:
            answer = os.fork() or _live(asked)
            living.add(answer)
        sys.stdout.write(orjson.dumps(answer).decode() + "\n")
        sys.stdout.flush()
    for pid in living:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _live(asked: dict[str, str]) -> int:
    """Be the command, in a child, and end as it ends."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, file in ((1, asked["out"]), (2, asked["log"])):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    code = 1
    try:
        app(asked["arguments"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code)
