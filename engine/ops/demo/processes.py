"""Child processes of a command: the service and the engine, started, awaited and stopped."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from engine.errors import StartError

# A line of a log.
Line = Mapping[str, Any]

START_SECONDS: Final = 20.0
STOP_SECONDS: Final = 15.0
POLL_SECONDS: Final = 0.03
LISTENING: Final = "listening"


class Child:
    """One `adt-engine` process whose log goes to a file, and the address it listens on."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path, listening: Line) -> None:
        self.process = process
        self.log = log
        self.host = str(listening["address"])
        self.port = int(listening["port"])

    def logged(self, event: str) -> Line:
        """Return the first line of an event in its log; StartError where there is none."""
        found = _logged(self.log, event)
        if found is None:
            raise StartError(f"{self.log} has no line {event!r}: is the process another version?")
        return found

    async def until_logged(self, event: str) -> None:
        """Wait until its log has a line of an event; StartError where it does not come."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while _logged(self.log, event) is None:  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise StartError(f"{self.log} has no line {event!r} after {START_SECONDS:.0f} s") from error

    async def stop(self) -> None:
        """Stop the process as an operator would, and make sure that it is gone."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


async def start(
    name: str, arguments: Sequence[str], environment: Mapping[str, str], log: Path, *, ready: str = LISTENING
) -> Child:
    """Start `adt-engine` with arguments and wait for the `ready` event; StartError shows the end of its log.

    It listens by then. An engine that does may not take operations yet: it does once it has `started`.
    """
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "engine",
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
        )
    try:
        async with asyncio.timeout(START_SECONDS):
            while _logged(log, ready) is None or (line := _logged(log, LISTENING)) is None:
                if process.returncode is not None:
                    raise StartError(f"{name} exited at once: {_tail(log)} (its log: {log})")
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as error:
        process.kill()
        raise StartError(
            f"{name} did not listen within {START_SECONDS:.0f} s: {_tail(log)} (its log: {log})"
        ) from error
    return Child(process, log, line)


def _logged(log: Path, event: str) -> Line | None:
    for text in log.read_bytes().splitlines():
        with contextlib.suppress(orjson.JSONDecodeError):
            line = orjson.loads(text)
            if isinstance(line, dict) and line.get("event") == event:
                return line
    return None


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return " / ".join(lines[-3:]) or "it said nothing"
