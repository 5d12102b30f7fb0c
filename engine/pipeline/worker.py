"""A child process for code that others write: one request at a time, bounded in time, kept warm for a while.

A question and its answer are a line of JSON each. What is asked is neither kept nor logged, and what the process says
on standard error goes nowhere: it may hold what was asked.
"""

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from typing import Any, Final

import orjson

from engine.errors import WorkerError

MOST_WAITING: Final = 8
MOST_ANSWER_BYTES: Final = 32 * 1_048_576
IDLE_SECONDS: Final = 600.0


class Worker:
    """The process, started by the first question; it ends with the engine, or when nobody has asked it for a while."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._ending: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int | None:
        """The number of the running process; None while there is none."""
        return self._process.pid if self._process is not None else None

    async def ask(self, module: str, question: Mapping[str, object], seconds: float) -> Any:
        """Return the answer of `python -m module` to a request; a process that takes too long is ended.

        WorkerError: too many wait already, no answer came within `seconds`, or the process ended.
        """
        if self._waiting >= MOST_WAITING:
            raise WorkerError("too many are trying mappings at this moment: try again shortly")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._answer(module, orjson.dumps(question) + b"\n", seconds)
        finally:
            self._waiting -= 1

    async def close(self) -> None:
        """End the process."""
        async with self._turn:
            await self._end()

    async def _answer(self, module: str, line: bytes, seconds: float) -> Any:
        if self._ending is not None:
            self._ending.cancel()
        try:
            async with asyncio.timeout(seconds):
                answer = await self._asked(module, line)
        except TimeoutError:
            await self._end()
            raise WorkerError(f"it took longer than {seconds:.0f} s and was stopped: try less at a time") from None
        except (OSError, ValueError, asyncio.IncompleteReadError):
            await self._end()
            raise WorkerError("the process that tries mappings ended: it may have needed too much memory") from None
        except BaseException:
            # The caller is gone: an answer that nobody reads must not become the next one's.
            await self._end()
            raise
        self._ending = asyncio.get_running_loop().call_later(self._idle_seconds, self._retire)
        return answer

    async def _asked(self, module: str, line: bytes) -> Any:
        process = self._process
        if process is None or process.returncode is not None:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module), stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=MOST_ANSWER_BYTES
            )
        if process.stdin is None or process.stdout is None:
            raise OSError
        process.stdin.write(line)
        await process.stdin.drain()
        return orjson.loads(await process.stdout.readuntil(b"\n"))

    def _retire(self) -> None:
        """End a process that nobody asks; it reads the end of its questions."""
        if not self._waiting and self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process = None

    async def _end(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
