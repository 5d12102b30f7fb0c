"""The webhook of alerts, to a real server on this machine: bounded, in order, without redirects or patients."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web

from engine.config.alerting import Webhook
from engine.config.secret import Secret
from engine.ops.webhook import MOST_WAITING, TRIES, Hook, forbidden


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
        async with asyncio.timeout(20), self.heard:
            await self.heard.wait_for(lambda: len(self.bodies) >= count)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A receiver that listens on this machine."""
    found = Receiver()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/alerts"
    yield found
    await runner.cleanup()


async def at_once(_seconds: float) -> None:
    """Wait in simulated time."""
    await asyncio.sleep(0)


@pytest.fixture
async def hook(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hook]:
    """A hook that sends to the receiver."""
    monkeypatch.setenv("HOOK_TOKEN", "tok-5")
    webhook = Webhook(url=receiver.url, token=Secret(env="HOOK_TOKEN"))
    found = Hook(lambda: webhook, at_once)
    task = asyncio.create_task(found.run())
    yield found
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


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
    async with asyncio.timeout(10):
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
    async with asyncio.timeout(20):
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
