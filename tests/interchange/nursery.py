"""Processes that start in a tenth of the time: forked from one that has imported everything already.

A child runs the same command as `adt-engine`, in a process of its own with signals of its own; what it spares is the
import, half a second of processor time at each start of the service and a whole one at each of any other command.
"""

import asyncio
import atexit
import contextlib
import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson
from argon2 import PasswordHasher

from engine import __main__
from engine.config.settings import shipped
from engine.deliver.wire.client import FhirClient
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.app.commands import interchange
from engine.mapping.compile import load
from engine.security import passwords
from tests.remembering import remember_shipped

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

    def __init__(self) -> None:
        program = [sys.executable, "-c", "from tests.interchange.nursery import tend; tend()"]
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("ENGINE_", "PYTEST_"))}
        self._run = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean, cwd=ROOT)
        atexit.register(self._run.communicate)
        self._turn = threading.Lock()

    def ask(self, question: dict[str, object]) -> int | None:
        """Send a line, and return what is answered; threads take turns."""
        assert self._run.stdin is not None
        assert self._run.stdout is not None
        with self._turn:
            self._run.stdin.write(orjson.dumps(question) + b"\n")
            self._run.stdin.flush()
            answer: int | None = orjson.loads(self._run.stdout.readline())
        return answer


@cache
def nursery() -> Nursery:
    """Return the nursery of this test run."""
    return Nursery()


def fork(
    arguments: list[str],
    folder: Path,
    environment: Mapping[str, str],
    out: Path,
    log: Path,
    program: str = "engine.__main__",
) -> Child:
    """Start `adt-engine` with these arguments in a folder; its output and its log go to files, or to one pipe.

    `program` is the module whose `main` is run, another one where tests change what there is to be done.
    """
    of = nursery()
    told = {"arguments": arguments, "folder": str(folder), "environment": environment, "program": program}
    pid = of.ask({**told, "out": str(out), "log": str(log)})
    assert pid is not None
    return Child(of, pid)


def ran(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None, timeout: float = 60
) -> "subprocess.CompletedProcess[str]":
    """Run `adt-engine` to its end in a folder, by default this one; `environment` is added to that of the tests."""
    with tempfile.TemporaryDirectory() as place:
        out, log = Path(place) / "out", Path(place) / "log"
        child = fork([*arguments], folder or Path.cwd(), environment or {}, out, log)
        try:
            code = child.wait(timeout)
        finally:
            child.kill()
        return subprocess.CompletedProcess(["adt-engine", *arguments], code, out.read_text(), log.read_text())


class Process:
    """A child to be used like an `asyncio.subprocess.Process`; `stdout` is all that it writes."""

    def __init__(self, child: Child, stdout: asyncio.StreamReader) -> None:
        self._child = child
        self.pid = child.pid
        self.stdout = stdout

    @property
    def returncode(self) -> int | None:
        """How it ended, negative for a signal; None while it runs."""
        return self._child.poll()

    async def wait(self) -> int:
        """Wait until it has ended, and return how."""
        while (code := self._child.poll()) is None:  # noqa: ASYNC110 - only its parent hears of it
            await asyncio.sleep(0.005)
        return code


async def fork_process(arguments: list[str], folder: Path, environment: Mapping[str, str], limit: int) -> Process:
    """Start `adt-engine` with these arguments in a folder; what it writes is read in lines of so many bytes at most."""
    with tempfile.TemporaryDirectory() as place:
        pipe = Path(place) / "pipe"
        os.mkfifo(pipe)
        reading = os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb", 0)
        child = fork(arguments, folder, environment, pipe, pipe)
    stdout = asyncio.StreamReader(limit=limit)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdout), reading)
    return Process(child, stdout)


def tend() -> None:
    """Fork children as asked for, line by line, and tell how they ended, until there are no more lines."""
    tables = (__main__.Commands.table, interchange.COMMANDS)
    for place in (place for table in tables for one in table.values() for place in one.places()):
        import_module(place.partition(":")[0])
    import_module("engine.interchange.app.commands.administration")
    import_module("engine.ops.cli.run")
    # Each engine would read the eighty files that ship anew; a text that a test changes is read as ever.
    remember_shipped()
    load([shipped("mappings")], "adt")
    FhirClient(request_seconds=1)
    # What a password costs is a test of its own, in tests/security/test_passwords.py.
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    vars(passwords).update(HASHER=cheap, NOBODY=cheap.hash(b"nobody"))
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
            answer = _born(asked)
            living.add(answer)
        sys.stdout.write(orjson.dumps(answer).decode() + "\n")
        sys.stdout.flush()
    for pid in living:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _born(asked: dict[str, Any]) -> int:
    """Fork a child and return its process id; in the child this does not return."""
    files = [os.open(os.devnull, os.O_RDONLY)]
    files += [os.open(asked[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for name in ("out", "log")]
    pid = os.fork()
    if not pid:
        for number, file in enumerate(files):
            os.dup2(file, number)
    for file in files:
        os.close(file)
    return pid or _live(asked)


def _live(asked: dict[str, Any]) -> int:
    """Be the command, in a child, and end as it ends."""
    code: object = 1
    try:
        os.chdir(asked["folder"])
        os.environ.update(asked["environment"])
        sys.argv = ["adt-engine", *asked["arguments"]]
        # A process that begins anew in its place becomes what it would be without the nursery.
        sys.orig_argv = [sys.executable, "-m", "engine", *asked["arguments"]]
        import_module(asked["program"]).main()
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        os._exit(code if isinstance(code, int) else 1)
