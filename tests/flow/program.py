"""One child process of the command line: started, heard, stopped, killed; never left behind."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from tests.interchange.nursery import Process, fork_process

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 60.0
# The operators' pages of engines that run at the same time.
ANY_PORT: Final = ("--admin", "127.0.0.1:0")
_LINE_BYTES: Final = 1 << 20


class Program:
    """A process of `adt-engine` that may live several times; `lines` holds the JSON log lines of the present life.

    `said` is everything that all lives wrote to standard output and standard error. `forked`: from a process that has
    imported everything already; else `python` runs it.
    """

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        forked: bool = True,
        python: str = sys.executable,
    ) -> None:
        self.arguments = (
            (*arguments, *ANY_PORT) if arguments[:1] == ("run",) and "--admin" not in arguments else arguments
        )
        self.lines: list[dict[str, Any]] = []
        self.said: list[bytes] = []
        self.lives = 0
        self.process: asyncio.subprocess.Process | Process | None = None
        self._folder = folder
        self._environment = dict(environment or {})
        self._forked = forked
        self._python = python
        self._reader: asyncio.Task[None] | None = None
        self._reading = False
        self._heard = asyncio.Condition()
        self._up = asyncio.Event()

    @property
    def pid(self) -> int:
        """The process id of the present life."""
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.returncode is None

    async def start(self, **environment: str) -> "Program":
        """Start a life and wait until it listens; its log stands in the error where it does not."""
        await self.spawn(**environment)
        await self.listening()
        return self

    async def spawn(self, **environment: str) -> None:
        """Start a life without waiting for anything."""
        assert not self.alive
        self.lines.clear()
        self.lives += 1
        if self._forked:
            more = self._environment | environment
            self.process = await fork_process([*self.arguments], self._folder, more, _LINE_BYTES)
        else:
            self.process = await asyncio.create_subprocess_exec(
                *(self._python, "-m", "engine"),
                *self.arguments,
                cwd=self._folder,
                env=_clean_environment() | self._environment | environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                limit=_LINE_BYTES,
            )
        self._reading = True
        self._reader = asyncio.create_task(self._read(self.process))

    async def listening(self) -> int:
        """Wait until the process listens and return its port."""
        return int((await self.line("listening"))["port"])

    async def up(self) -> int:
        """Wait, over any number of lives, until the process listens, and return its port."""
        while True:
            await self._up.wait()
            # A node that was taken for dead begins anew in the same process, on another port.
            line = next((line for line in reversed(self.lines) if line.get("event") == "listening"), None)
            if line is not None:
                return int(line["port"])

    async def line(self, event: str) -> dict[str, Any]:
        """Wait until the present life has told of an event, and return its first line; fails as `wait_for` does."""
        await self.wait_for(lambda: self._said(event) is not None, START_SECONDS)
        return next(line for line in self.lines if line.get("event") == event)

    async def wait_for(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until a condition over `lines` holds; AssertionError with the log where the process ends before."""
        try:
            async with asyncio.timeout(seconds), self._heard:
                await self._heard.wait_for(lambda: condition() or not self._reading)
        except TimeoutError:
            raise AssertionError(f"{self.arguments[0]} did not come so far\n{self.log()}") from None
        assert condition(), f"{self.arguments[0]} ended with {await self.ended()}\n{self.log()}"

    async def stop(self) -> int:
        """Ask the process to end and return its exit code; AssertionError where it must be killed."""
        self._signal(signal.SIGTERM)
        try:
            return await self.ended(STOP_SECONDS)
        except TimeoutError:
            await self.kill()
            raise AssertionError(f"{self.arguments[0]} does not stop\n{self.log()}") from None

    async def kill(self) -> None:
        """Kill the process where it stands (SIGKILL)."""
        self._signal(signal.SIGKILL)
        await self.ended()

    def pause(self) -> None:
        """Stop the process where it stands (SIGSTOP)."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a process that was stopped go on (SIGCONT)."""
        self._signal(signal.SIGCONT)

    async def ended(self, seconds: float = STOP_SECONDS) -> int:
        """Wait until the process has ended by itself; TimeoutError where it does not."""
        assert self.process is not None
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
            if self._reader is not None:
                await self._reader
        return code

    def log(self) -> str:
        """Return the last of what all lives wrote."""
        return b"".join(self.said[-40:]).decode(errors="replace")

    def _said(self, event: str) -> dict[str, Any] | None:
        return next((line for line in self.lines if line.get("event") == event), None)

    def _signal(self, number: int) -> None:
        # Popen.send_signal polls first, and so may take the exit status from asyncio's watcher.
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _read(self, process: asyncio.subprocess.Process | Process) -> None:
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                self.said.append(line)
                if line.startswith(b"{"):
                    with contextlib.suppress(orjson.JSONDecodeError):
                        self.lines.append(orjson.loads(line))
                if self._said("listening"):
                    self._up.set()
                async with self._heard:
                    self._heard.notify_all()
        finally:
            self._up.clear()
            self._reading = False
            async with self._heard:
                self._heard.notify_all()


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("ENGINE_", "PYTEST_", "COV_"))}
