"""The real process of the service: started by its command, its log kept in a file, reloaded, and stopped in order."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson

from engine.config.service import ServiceConfiguration
from tests.interchange.nursery import Child, fork
from tests.interchange.places import url_of

PROGRAM = (sys.executable, "-m", "engine", "interchange")
# Stands for the command in a process forked from one that is warm.
FORKED: tuple[str, ...] = ()
ENGINE_SECRET = "of the process"
ENVIRONMENT = {**os.environ, "ENGINE_SECRET": ENGINE_SECRET}
# What the tests' patients are called, in any letter case: no line of any log may hold it.
CANARIES = ("quintero", "marisol", "1984-02-29")
# Read once: a client of its own would take 20 ms of processor time for what it never needs over plain HTTP.
TRUST = httpx.create_ssl_context()


@dataclass
class Process:
    """A running service: its address, its port, and the folder that holds its configuration, database and log."""

    run: "subprocess.Popen[bytes] | Child"
    url: str
    folder: Path
    log: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines of the log so far."""
        return [orjson.loads(line) for line in self.log.read_text().splitlines()]

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self.event("listening")["port"]

    def event(self, name: str) -> dict[str, Any]:
        """Return the last line of this event, waiting for the first one; AssertionError after a minute."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for line in reversed(self.events):
                if line["event"] == name:
                    return line
            time.sleep(0.01)
        raise AssertionError(f"no {name!r} in the log:\n{self.log.read_text()}")

    def reload(self, settings: ServiceConfiguration | str) -> list[dict[str, Any]]:
        """Write another configuration, ask for it to be read (SIGHUP), and return what the log says of that."""
        before = len(self.events)
        write_configuration(self.folder, settings)
        self.run.send_signal(signal.SIGHUP)
        until = time.monotonic() + 60
        while len(self.events) == before and time.monotonic() < until:
            time.sleep(0.01)
        # All of it is written in one go, before the next request is answered.
        assert httpx.get(f"http://127.0.0.1:{self.port}/livez", trust_env=False, verify=TRUST).status_code in {200, 404}
        return self.events[before:]

    def stop(self) -> None:
        """Stop it in order: SIGTERM ends it with exit 0, and its log tells nothing of a patient."""
        self.run.send_signal(signal.SIGTERM)
        assert self.run.wait(60) == 0, self.log.read_text()
        self.check_log()

    def check_log(self) -> None:
        """Hold the log to JSON lines without a word about a patient."""
        said = self.log.read_text().lower()
        assert [word for word in CANARIES if word in said] == []
        assert all("event" in line for line in self.events)


def write_configuration(folder: Path, settings: ServiceConfiguration | str) -> Path:
    """Write a configuration, as text or as a value, to the file that the process reads."""
    file = folder / "interchange.yaml"
    text = settings if isinstance(settings, str) else settings.model_dump_json(exclude_unset=True)
    file.write_text(text)
    return file


@contextlib.contextmanager
def started(
    folder: Path,
    settings: ServiceConfiguration | str,
    command: tuple[str, ...] = FORKED,
    fault: str = "",
    program: str = "engine.__main__",
    database: str = "",
) -> Iterator[Process]:
    """Run the command over a folder until the block ends, then stop it in order; one that has ended is left alone.

    `fault` is what ENGINE_FAULT arms in it, '' for nothing; `program` is the module that a forked one runs, `database`
    where it keeps its data, '' for its own place.
    """
    arguments = ["--config", str(write_configuration(folder, settings)), "--port", "0"]
    arguments += ["--database", database or url_of(folder)]
    out, log = folder / "out", folder / "log"
    out.write_text("")
    log.write_text("")
    with contextlib.ExitStack() as stack:
        run = _launch(
            stack,
            [*command, *arguments] if command else arguments,
            out,
            log,
            program="" if command else program,
            fault=fault,
        )
        try:
            process = Process(run, _address(run, out), folder, log)
            yield process
            if run.poll() is None:
                process.stop()
        except BaseException as error:
            error.add_note(f"the service's log:\n{log.read_text()[-4000:]}")
            raise
        finally:
            run.kill()
            run.wait(60)


def _launch(
    stack: contextlib.ExitStack, arguments: list[str], out: Path, log: Path, *, program: str, fault: str
) -> "subprocess.Popen[bytes] | Child":
    armed = {"ENGINE_FAULT": fault} if fault else {}
    if program:
        environment = {"ENGINE_SECRET": ENGINE_SECRET, **armed}
        return fork(["interchange", *arguments], Path.cwd(), environment, out, log, program)
    told, said = stack.enter_context(log.open("w")), stack.enter_context(out.open("w"))
    return subprocess.Popen(arguments, env={**ENVIRONMENT, **armed}, stdin=subprocess.DEVNULL, stdout=said, stderr=told)


def _address(run: "subprocess.Popen[bytes] | Child", out: Path) -> str:
    """Return the address that a starting service announces; AssertionError where it ends first, or after a minute."""
    until = time.monotonic() + 60
    while not out.read_text().endswith("\n"):
        assert run.poll() is None, "the service did not start"
        assert time.monotonic() < until, "the service has not started within a minute"
        time.sleep(0.005)
    return out.read_text().split()[-1]
