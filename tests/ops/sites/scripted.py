"""A server with the addresses of an engine's API, which answers as a test has it: of another version, or wrongly."""

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

from aiohttp import web

from engine.config.secret import Secret
from engine.config.sites import SiteSettings

NOON: Final = "2026-03-01T12:00:00.000+00:00"
TOKEN: Final = "swordfish-77-of-north"
VARIABLE: Final = "ADT_ENGINE_TEST_NORTH"

CHANNEL: Final[dict[str, Any]] = {
    "channel": "adt", "state": "listening", "since": None, "by": "", "mode": "live", "address": "127.0.0.1",
    "port": 2575, "http": "", "connections": 2, "messages": 9, "refused": 0, "duplicates": 0, "last_received_at": NOON,
    "merges_held": None, "mapping": "adt", "contact": "", "destinations": ["cdis"], "filtered": 0, "rules": {},
    "strayed": {}, "lacks": {},
}  # fmt: skip
DESTINATION: Final[dict[str, Any]] = {
    "destination": "cdis", "state": "open", "reason": "connection-refused", "detail": "", "since": NOON,
    "next_try_at": NOON, "by": "", "under_way": 0, "waiting": 421, "oldest_received_at": NOON, "held": 0,
    "held_since": None, "fhir": "R4", "concurrency": 8, "channels": ["adt"], "lacks": [],
}  # fmt: skip
COUNTS: Final[dict[str, Any]] = {
    "entries": 9, "last": 9, "at_door": {}, "deliveries": {}, "oldest_unfinished_at": None, "since": NOON,
    "until": NOON, "received": {"adt": {"received": 9, "refused": 1, "filtered": 0}}, "settled": {}, "rules": {},
    "queues": {"cdis": {"unfinished": 421, "held": 0, "oldest_at": NOON, "age_seconds": 5}},
}  # fmt: skip


def alert(kind: str, severity: str = "urgent", **given: Any) -> dict[str, Any]:
    """Return an open alert as the API writes it."""
    return {
        "id": 1, "kind": kind, "subject": "cdis", "detail": "", "opened_at": NOON, "cleared_at": None,
        "acknowledged_at": None, "acknowledged_by": "", "contact": "", "meaning": "m", "can_wait": False,
        "severity": severity, "next_step": "n",
    } | given  # fmt: skip


class Scripted:
    """A server; `answers` are its bodies by the address below /api/v1, an exception's status in place of one.

    `asked` counts requests; while `gate` is not set nothing is answered.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/channels": [CHANNEL],
            "/destinations": [DESTINATION],
            "/messages/counts": COUNTS,
            "/alerts": [alert("destination-down")],
            "/openapi.json": {"info": {"version": "0.9.0"}},
        }
        self.asked: Counter[str] = Counter()
        self.queries: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.heard = asyncio.Event()
        self.url = ""

    def site(self, name: str = "North", ca_file: str | None = None) -> SiteSettings:
        """Return the settings of a site at this server."""
        return SiteSettings(name=name, url=self.url, token=Secret(env=VARIABLE, file=None), ca_file=ca_file)

    async def answer(self, request: web.Request) -> web.Response:
        """Answer as an engine does, to whom has the token."""
        self.asked[request.path] += 1
        self.queries.append(request.path_qs)
        self.heard.set()
        await self.gate.wait()
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"status": 401, "detail": "no such token"}, status=401)
        found = self.answers.get(request.path.removeprefix("/api/v1"))
        if isinstance(found, web.Response):
            return web.Response(status=found.status, body=found.body, headers=found.headers)
        return web.Response(status=404) if found is None else web.json_response(found)


@contextlib.asynccontextmanager
async def scripted(context: ssl.SSLContext | None = None) -> AsyncIterator[Scripted]:
    """A server that listens on this machine, over TLS where it has a context."""
    found = Scripted()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", found.answer)
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    found.url = f"{'https' if context else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield found
    finally:
        found.gate.set()
        await runner.cleanup()
