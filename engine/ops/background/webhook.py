"""The webhook of alerts: each that opens or clears is sent as JSON, in order, with a bounded number of retries."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import orjson

from engine import telemetry
from engine.config.alerting import Webhook
from engine.deliver.wire.client import FhirClient
from engine.errors import AdtEngineError

MOST_WAITING: Final = 100
TRIES: Final = 6
FIRST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 60.0
ANSWER_BYTES: Final = 65_536

_log = telemetry.logger()


class Hook:
    """Sends bodies to where `webhook()` says now; `failing` says that the last one could not be sent.

    `sleep` waits between tries. What comes faster than it can be sent pushes out the oldest.
    """

    def __init__(
        self, webhook: Callable[[], Webhook | None], sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._webhook = webhook
        self._sleep = sleep
        self._waiting: deque[Mapping[str, object]] = deque(maxlen=MOST_WAITING)
        self._wake = asyncio.Event()
        self.failing = False

    def put(self, body: Mapping[str, object]) -> None:
        """Send a body soon; where no webhook is configured it is dropped."""
        if self._webhook() is not None:
            self._waiting.append(body)
            self._wake.set()

    async def run(self) -> None:
        """Send what is put, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._send(self._waiting.popleft())

    async def _send(self, body: Mapping[str, object]) -> None:
        for number in range(TRIES):
            webhook = self._webhook()
            if webhook is None:
                return
            if number:
                await self._sleep(min(FIRST_SECONDS * 2**number, MOST_SECONDS))
            reason = await _posted(webhook, orjson.dumps(body))
            if not reason:
                self.failing = False
                return
            _log.warning("alert not sent", code=body.get("kind"), reason=reason, attempt=number + 1)
        self.failing = True


async def forbidden(host: str, port: int) -> bool:
    """Say whether a name resolves to an address that alerts must not be sent to, such as a cloud's metadata service."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port)
    except OSError:
        return False
    addresses = [ip_address(str(sockaddr[0]).partition("%")[0]) for *_, sockaddr in found]
    return any(one.is_link_local or one.is_multicast or one.is_unspecified for one in addresses)


async def _posted(webhook: Webhook, content: bytes) -> str:
    """Send once; return why it failed, empty where the answer is one of 200."""
    headers = [("Content-Type", "application/json")]
    parts = urlsplit(webhook.url)
    if await forbidden(parts.hostname or "", parts.port or 443):
        return "reserved-address"
    try:
        if webhook.token is not None:
            headers.append(("Authorization", f"Bearer {webhook.token.read()}"))
        client = FhirClient(
            request_seconds=webhook.timeout_seconds,
            ca_file=webhook.ca_file,
            max_answer_bytes=ANSWER_BYTES,
            journaled=False,
        )
    except LookupError:
        return "secret-unreadable"
    except AdtEngineError:
        return "tls"
    try:
        answer = await client.send("POST", webhook.url, headers, content)
    except AdtEngineError as error:
        return str(error)
    finally:
        with contextlib.suppress(AdtEngineError):
            await client.close()
    return "" if 200 <= answer.status < 300 else f"http-{answer.status}"
