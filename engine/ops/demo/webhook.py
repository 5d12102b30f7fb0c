"""The demo's subscriber: a webhook over HTTPS that writes a line for each change of a chart that it is sent."""

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from engine.errors import StartError
from engine.ops.cli.init.init import write_test_certificate
from engine.ops.demo.chart import facts_of

LONGEST_HEAD: Final = 16_384
LONGEST_BODY: Final = 4_194_304
CRITERIA: Final = "Patient"
CERTIFICATE: Final = "webhook.pem"
_ACCEPTED: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_REFUSED: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class DemoWebhook:
    """An endpoint on this machine, with a certificate of its own; `log` is the file that people watch."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "webhook.txt"
        self.received = 0
        self._certificate, self._key = folder / CERTIFICATE, folder / "webhook.key"
        self._server: asyncio.Server | None = None
        write_test_certificate(self._certificate, self._key, datetime.now(UTC))

    async def start(self) -> str:
        """Listen on a free port and return the address; StartError where this machine lets nobody listen."""
        self.log.touch()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate, self._key)
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context, limit=LONGEST_HEAD)
        except OSError as error:
            raise StartError(f"the demo's webhook cannot listen on 127.0.0.1 ({error.strerror})") from error
        return f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/charts"

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one request, as a subscriber does: answer 200 once it is written down."""
        with contextlib.suppress(OSError):
            answer = _ACCEPTED
            try:
                self._write(await _body(reader))
            except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                answer = _REFUSED
            writer.write(answer)
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def _write(self, resource: dict[str, Any]) -> None:
        facts = facts_of(resource)
        who = " ".join(filter(None, (facts["given"], facts["family"], facts["gender"], facts["birthDate"])))
        version = resource.get("meta", {}).get("versionId", "?")
        change = "new chart" if version == "1" else f"changed, version {version}"
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{datetime.now(UTC):%H:%M:%S} Patient/{resource['id']} {change}: {who}\n")
        self.received += 1


async def _body(reader: asyncio.StreamReader) -> dict[str, Any]:
    """Return the resource of a request; ValueError for what is no Patient in JSON with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
    length = next((int(value) for name, _, value in lines if name.lower() == b"content-length"), -1)
    if not 0 < length <= LONGEST_BODY:
        raise ValueError("a body of this length is not taken")
    resource = orjson.loads(await reader.readexactly(length))
    if not isinstance(resource, dict) or resource.get("resourceType") != "Patient" or "id" not in resource:
        raise ValueError("the body is no Patient")
    return resource


def subscription(endpoint: str) -> bytes:
    """Return the Subscription that asks for each change of a patient's chart at an endpoint."""
    channel = {"type": "rest-hook", "endpoint": endpoint, "payload": "application/fhir+json"}
    made = {"resourceType": "Subscription", "status": "requested", "reason": "The demo's subscriber"}
    return orjson.dumps({**made, "criteria": CRITERIA, "channel": channel})
