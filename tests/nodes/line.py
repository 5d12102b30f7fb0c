"""A line between a node and its database that a test cuts: by a reset, or so that nothing arrives and nobody hears."""

import asyncio
import contextlib
from enum import Enum, auto


class Cut(Enum):
    """How a line is: whole; cut, so that whoever uses it is told; or silent, so that everything waits for ever.

    HALF: what goes to the database arrives, and nothing comes back.
    """

    WHOLE = auto()
    RESET = auto()
    SILENT = auto()
    HALF = auto()


class Line:
    """Listens on a port of 127.0.0.1 and passes on what comes to another port there, as `state` says."""

    def __init__(self, port: int) -> None:
        self.state = Cut.WHOLE
        self._to = port
        self._read: set[asyncio.StreamReader] = set()
        self._dead: set[asyncio.StreamReader] = set()
        self._ends: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def open(self) -> "Line":
        """Listen."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return self

    async def close(self) -> None:
        """Stop listening and end all connections."""
        assert self._server is not None
        self._server.close()
        self.cut(Cut.RESET)
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self, how: Cut) -> None:
        """Cut it; what was sent into a silent line is lost, and its connections stay dead when it is mended."""
        self.state = how
        if how is Cut.RESET:
            for end in self._ends:
                end.transport.abort()

    def mend(self, *, told: bool = True) -> None:
        """Make it whole for new connections; those of before end now, or, not `told`, stay silent for ever."""
        if told:
            self.cut(Cut.RESET)
        self._dead |= self._read
        self.state = Cut.WHOLE

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        ends = [writer]
        try:
            if self.state in {Cut.WHOLE, Cut.HALF}:
                there, other = await asyncio.open_connection("127.0.0.1", self._to)
                self._ends.add(other)
                ends.append(other)
                self._read |= {reader, there}
                both = [
                    asyncio.create_task(self._carry(reader, other, {Cut.WHOLE, Cut.HALF})),
                    asyncio.create_task(self._carry(there, writer, {Cut.WHOLE})),
                ]
                self._tasks.update(both)
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in both:
                    task.cancel()
                await asyncio.gather(*both, return_exceptions=True)
                self._tasks.difference_update(both)
            elif self.state is Cut.SILENT:
                await reader.read()
        except OSError:
            """One of the two is gone."""
        finally:
            for end in ends:
                self._ends.discard(end)
                with contextlib.suppress(OSError):
                    end.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, states: set[Cut]) -> None:
        with contextlib.suppress(OSError):
            while content := await reader.read(65_536):
                if self.state in states and reader not in self._dead:
                    writer.write(content)
                    await writer.drain()
