"""A receiver of HL7 v2 whose answers a test sets, and an engine at work with the service and relays as destinations."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from hl7.mllp import start_hl7_server

from tests.flow.rig import Rig, channel_file, running, write

SHORT: Final = {"first_seconds": 0.05, "max_seconds": 0.2}
LOOPBACK: Final = "127.0.0.1"


class Receiver:
    """A receiver on a free port: `answers` are MSA-1 by MSH-10 (else AA); `got` holds what came, byte for byte.

    With `drop` as its answer it closes the line once, and with `silent` it answers nothing.
    """

    def __init__(self, answers: Mapping[str, str] | None = None, port: int = 0) -> None:
        self.answers = dict(answers or {})
        self.got: list[bytes] = []
        self.port = port
        self._lines: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._came = asyncio.Condition()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen, at the same port as before."""
        self._server = await start_hl7_server(self._serve, port=self.port, host=LOOPBACK)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Close the port and every line."""
        if self._server is not None:
            self._server.close()
        for line in self._lines:
            line.close()

    async def gets(self, count: int) -> list[bytes]:
        """Wait until so many messages have come, and return them."""
        async with asyncio.timeout(60), self._came:
            await self._came.wait_for(lambda: len(self.got) >= count)
        return self.got

    async def say(self, block: bytes) -> None:
        """Send a block that nobody waits for, on every line."""
        for line in self._lines:
            line.writeblock(block)  # type: ignore[attr-defined]
            await line.drain()

    async def _serve(self, reader: Any, writer: Any) -> None:
        self._lines.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                raw = await reader.readblock()
                async with self._came:
                    self.got.append(raw)
                    self._came.notify_all()
                control_id = raw.split(b"|")[9].decode()
                code = self.answers.get(control_id, "AA")
                if code == "drop":
                    del self.answers[control_id]
                    break
                if code != "silent":
                    writer.writeblock(acknowledgement(code, control_id))
                    await writer.drain()
        self._lines.discard(writer)
        writer.close()


def acknowledgement(code: str, control_id: str) -> bytes:
    """Return an acknowledgement of a message; a refusal with an ERR."""
    error = "" if code in {"AA", "CA"} else "ERR|||207^Application internal error^HL70357|E||||the queue is full\r"
    return f"MSH|^~\\&|RIS|RVB|||20250701||ACK|{control_id}-A|P|2.5.1\rMSA|{code}|{control_id}\r{error}".encode()


def relay(port: int, name: str = "radiology", **settings: Any) -> dict[str, Any]:
    """Return a relay to a port of this machine, with short waits."""
    return {"name": name, "type": "mllp", "host": LOOPBACK, "port": port, "retry": SHORT} | settings


@contextlib.asynccontextmanager
async def relaying(folder: Path, *relays: Mapping[str, Any], fhir: bool = True, **channel: Any) -> AsyncIterator[Rig]:
    """Run service and engine, whose channel has these relays, and with `fhir` the service."""
    async with running(folder, **channel) as rig:
        settings = channel_file(rig.proxy.url) | channel
        settings["destinations"] = [*(settings["destinations"] if fhir else ()), *relays]
        write(folder / "channels" / "riverbend-adt.yaml", settings)
        await rig.engine.start()
        await rig.engine.line("started")
        yield rig
