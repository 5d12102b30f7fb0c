"""The webhook of alerts, to a real server on this machine: bounded, in order, without redirects or patients."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import trustme
from aiohttp import web
from structlog.testing import capture_logs

from engine import telemetry
from engine.config.alerting import Webhook
from engine.config.secret import Secret
from engine.ops import background as hooks
from engine.ops.background import MOST_WAITING, TRIES, Hook, forbidden


class Receiver:
    """A server that keeps what it is sent and answers as it is told."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self.heard = asyncio.Condition()
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        """Keep a request; the statuses are used up one by one, then it is 204."""
        status = self.statuses.pop(0) if self.statuses else 204
        async with self.heard:
            self.bodies.append(orjson.loads(await request.read()))
            self.headers.append(request.headers)
            self.heard.notify_all()
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    async def until(self, count: int) -> None:
        """Wait until so many requests came."""
        async with asyncio.timeout(60), self.heard:
            await self.heard.wait_for(lambda: len(self.bodies) >= count)


@contextlib.asynccontextmanager
async def receiving(context: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """A receiver that listens on this machine, over TLS where it has a context."""
    found = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    found.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}/alerts"
    yield found
    await runner.cleanup()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that listens on this machine."""
    async with receiving() as found:
        yield found


@contextlib.asynccontextmanager
async def sending(webhook: Webhook) -> AsyncIterator[Hook]:
    """A hook that sends there."""
    hook = Hook(lambda: webhook, at_once)
    task = asyncio.create_task(hook.run())
    yield hook
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def at_once(_seconds: float) -> None:
    """Wait in simulated time."""
    await asyncio.sleep(0)


@pytest.fixture
async def hook(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hook]:
    """A hook that sends to the receiver."""
    monkeypatch.setenv("HOOK_TOKEN", "tok-5")
    async with sending(Webhook(url=receiver.url, token=Secret(env="HOOK_TOKEN"))) as found:
        yield found


async def test_alerts_are_posted_in_order_with_the_token(hook: Hook, receiver: Receiver) -> None:
    """Each body once, as JSON."""
    for number in range(3):
        hook.put({"id": number})
    await receiver.until(3)
    assert [body["id"] for body in receiver.bodies] == [0, 1, 2]
    assert receiver.headers[0]["Authorization"] == "Bearer tok-5"
    assert receiver.headers[0]["Content-Type"] == "application/json"


async def test_a_failure_is_tried_again_and_then_given_up(hook: Hook, receiver: Receiver) -> None:
    """A bounded number of tries, redirects among them; then the next alert has its turn, and the hook says so."""
    receiver.statuses = [302, *[503] * (TRIES - 1)]
    hook.put({"id": "lost"})
    hook.put({"id": "next"})
    await receiver.until(TRIES + 1)
    assert [body["id"] for body in receiver.bodies] == ["lost"] * TRIES + ["next"]
    async with asyncio.timeout(60):
        while hook.failing:  # noqa: ASYNC110 - the answer is on its way back
            await asyncio.sleep(0)


async def test_what_waits_is_bounded() -> None:
    """A dead receiver costs no memory."""
    webhook = Webhook(url="http://127.0.0.1:9/none")
    hook = Hook(lambda: webhook, at_once)
    for number in range(3 * MOST_WAITING):
        hook.put({"id": number})
    assert len(hook._waiting) == MOST_WAITING
    task = asyncio.create_task(hook.run())
    async with asyncio.timeout(60):
        while not hook.failing:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_without_a_webhook_nothing_is_kept() -> None:
    """What nobody asked for does not wait for anybody."""
    hook = Hook(lambda: None)
    hook.put({"id": 1})
    assert len(hook._waiting) == 0


async def test_no_alert_goes_to_a_reserved_address() -> None:
    """A name is looked up at each sending: one that stands for such an address is not asked."""
    reserved = ["169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1"]  # noqa: S104 - nothing listens there
    assert [await forbidden(host, 443) for host in reserved] == [True] * 4
    assert [await forbidden(host, 443) for host in ("localhost", "10.1.2.3", "no.such.name.invalid")] == [False] * 3


SECRETS = ("tok-5", "canary-of-the-path", "canary-of-the-query", "canary-of-the-body")
YESTERDAY = datetime(2026, 1, 2, tzinfo=UTC)


def context_of(issued: trustme.LeafCert) -> ssl.SSLContext:
    """Return a server's context with a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    return context


def file_of(authority: trustme.CA, folder: Path) -> str:
    """Return the PEM file of an authority."""
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return str(file)


async def test_a_private_authority_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over TLS with `ca_file` each alert arrives once, with its token, and nothing is logged."""
    monkeypatch.setenv("HOOK_TOKEN", "tok-5")
    authority = trustme.CA()
    token = Secret(env="HOOK_TOKEN")
    async with receiving(context_of(authority.issue_cert("127.0.0.1"))) as receiver:
        webhook = Webhook(url=receiver.url, token=token, ca_file=file_of(authority, tmp_path))
        with capture_logs() as lines:
            async with sending(webhook) as hook:
                hook.put({"id": 1})
                await receiver.until(1)
                hook.put({"id": 2})
                await receiver.until(2)
        assert [body["id"] for body in receiver.bodies] == [1, 2]
        assert receiver.headers[0]["Authorization"] == "Bearer tok-5"
        assert lines == []


@pytest.mark.parametrize("wrong", ["authority", "name", "expired", "no-tls", "no-ca-file"])
async def test_what_cannot_be_proven_gets_nothing(wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another authority, another name, a certificate that has ended, no TLS, none known: not a byte of an alert leaves.

    It is tried a bounded number of times; the log says why, and holds nothing of token, address or alert.
    """
    monkeypatch.setenv("HOOK_TOKEN", "tok-5")
    monkeypatch.setattr(hooks, "_log", telemetry.logger())
    authority = trustme.CA()
    name = "other.example" if wrong == "name" else "127.0.0.1"
    issued = authority.issue_cert(name, not_after=YESTERDAY if wrong == "expired" else None)
    known = trustme.CA() if wrong == "authority" else authority
    ca_file = None if wrong == "no-ca-file" else file_of(known, tmp_path)
    async with receiving(None if wrong == "no-tls" else context_of(issued)) as receiver:
        url = f"{receiver.url.replace('http:', 'https:')}/canary-of-the-path?key=canary-of-the-query"
        with capture_logs() as lines:
            async with sending(Webhook(url=url, token=Secret(env="HOOK_TOKEN"), ca_file=ca_file)) as hook:
                hook.put({"kind": "held-lanes", "detail": "canary-of-the-body"})
                async with asyncio.timeout(20):
                    while not hook.failing:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.01)
    assert receiver.bodies == []
    assert [line["attempt"] for line in lines] == list(range(1, TRIES + 1))
    assert {line["reason"] for line in lines} == {"tls" if wrong == "no-tls" else "tls-certificate"}
    assert not [secret for secret in SECRETS if secret in str(lines)]
