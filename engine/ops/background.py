"""Work next to the pipeline in the engine's process: the watch, the webhook of alerts, the index of words."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import orjson

from engine import telemetry
from engine.config.alerting import Webhook
from engine.deliver.wire.client import FhirClient
from engine.errors import AdtEngineError, place_of
from engine.journal.read.texts import Texts
from engine.journal.state.alerting import Alert
from engine.ops.access.access import Access
from engine.ops.audit.anchors import Anchoring
from engine.ops.operations.alerts import alert_view
from engine.pipeline.alerts.kind import AlertKind
from engine.pipeline.engine import Engine
from engine.pipeline.maintenance.watch import Monitor

_log = telemetry.logger()


@contextlib.asynccontextmanager
async def indexed(folder: Path, charsets: Callable[[], Mapping[str, str]]) -> AsyncIterator[None]:
    """Keep the words of a folder's messages indexed, in a thread; searching works without, only slower.

    `charsets`: those of the channels now, in which messages are read whose MSH-18 is empty.
    """
    texts = Texts(folder, _failed, charsets)
    texts.start()
    try:
        yield
    finally:
        await asyncio.to_thread(texts.stop)


def _failed(error: BaseException) -> None:
    _log.error("words not indexed", error=type(error).__name__, point=place_of(error))


MOST_WAITING: Final = 100
TRIES: Final = 6
FIRST_SECONDS: Final = 1.0
MOST_SECONDS: Final = 60.0
ANSWER_BYTES: Final = 65_536


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
    return any(address.is_link_local or address.is_multicast or address.is_unspecified for address in addresses)


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


def turned_away(access: Access) -> dict[AlertKind, int]:
    """Return how many were refused at the entrance since the start, by the alert that many of them open."""
    attempts = access.attempts
    return {AlertKind.LOG_IN_FAILURES: attempts.refused_log_ins, AlertKind.TOKEN_FAILURES: attempts.refused_tokens}


@contextlib.asynccontextmanager
async def watching(
    engine: Engine, access: Access, anchoring: Anchoring, certificate: Path | None = None
) -> AsyncIterator[Monitor]:
    """Check an engine at intervals until closed; alerts go to the log, the page and the webhook.

    `certificate`: the file of the operators' pages' own.
    """
    hook = Hook(lambda: engine.alerting.webhook)
    watch = Monitor(engine, lambda: hook.failing, lambda: turned_away(access), lambda: anchoring.failing, certificate)

    def announce(alert: Alert) -> None:
        event = {"event": "cleared" if alert.cleared_at else "opened"}
        hook.put(event | alert_view(engine, alert).model_dump(mode="json"))

    engine.alerts.listeners.append(announce)
    tasks = [asyncio.create_task(watch.run()), asyncio.create_task(hook.run())]
    try:
        yield watch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        engine.alerts.listeners.remove(announce)
