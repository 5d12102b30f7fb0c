"""A recording HTTP proxy before the service: it keeps the log S of effects, and misbehaves as a test tells it to."""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

HOP_BY_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding"})
PATIENT: Final = "/fhir/R4/Patient"


@dataclass(slots=True)
class Call:
    """One request that reached the proxy, what the service said (`status` 0: not asked), what the engine was told."""

    order: int
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    status: int = 0
    answer: bytes = b""
    answer_headers: Mapping[str, str] = field(default_factory=dict)
    told: int = 0

    @property
    def json(self) -> Any:
        """The request's body, None where there is none."""
        return orjson.loads(self.body) if self.body else None

    @property
    def preview(self) -> bool:
        """Whether this is a merge that only shows what it would do."""
        return any(item.get("name") == "preview" and item.get("valueBoolean") for item in self.json["parameter"])

    @property
    def writes(self) -> bool:
        """Whether the request changes a patient: a create, an update, or a merge that is no preview."""
        if self.method == "PUT":
            return self.path.startswith(PATIENT)
        if self.method != "POST":
            return False
        return self.path == PATIENT or (self.path == f"{PATIENT}/$merge" and not self.preview)

    @property
    def took_effect(self) -> bool:
        """Whether the service changed something for it; 200 to a conditional create changes nothing."""
        return self.writes and (self.status == 201 if self.path == PATIENT else self.status in {200, 201})

    @property
    def logical_id(self) -> str:
        """The id of the patient that the service wrote, empty for merges."""
        made = self.answer_headers.get("Location", "").partition("/_history/")[0]
        return _last(made if self.method == "POST" else self.path)

    @property
    def version(self) -> int:
        """The version that the service gave, 0 where it gave none."""
        return int(self.answer_headers.get("ETag", "").strip('W/"') or 0)

    @property
    def stamps(self) -> frozenset[str]:
        """The telephone numbers in the body: they name the messages that are in it."""
        body = self.json if self.path != f"{PATIENT}/$merge" else None
        return frozenset(phones(body)) if body else frozenset()


def phones(patient: Mapping[str, Any]) -> list[str]:
    """Return the last seven digits of a Patient's telephone numbers."""
    digits = ["".join(filter(str.isdigit, str(point.get("value")))) for point in patient.get("telecom", [])]
    return [number[-7:] for number in digits]


@dataclass(frozen=True, slots=True)
class Fault:
    """How one call goes wrong: an answer of our own before or after the service's work, a wait, a broken line."""

    status: int = 0
    after_commit: bool = False
    drop: bool = False
    wait_seconds: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Proxy:
    """Stands between engine and service; `script` says for each call how it goes wrong, None for not at all."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.faults = 0
        self.script: Callable[[Call], Fault | None] = lambda _call: None
        self.upstream = ""
        self._order = itertools.count()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where the proxy answers; the same all its life."""
        return f"http://127.0.0.1:{self._port}"

    async def start(self, upstream: str) -> "Proxy":
        """Pass calls on to `upstream` from now on."""
        self.upstream = upstream
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            auto_decompress=False,
            # A client that asks for no gzip gets none, and what has no body says of no type.
            skip_auto_headers=("Accept-Encoding", "Content-Type"),
            timeout=aiohttp.ClientTimeout(60),
        )
        await self.open()
        return self

    async def open(self) -> None:
        """Listen, on the port of before."""
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{rest:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        place = socket.create_server(("127.0.0.1", self._port))
        self._port = place.getsockname()[1]
        await web.SockSite(self._runner, place).start()

    async def close(self) -> None:
        """Stop listening and break every line, as a server that is down."""
        if self._runner is not None:
            for site in [*self._runner.sites]:
                await site.stop()
            # A line that was being taken just then is known after a turn of the loop or two, and broken as well.
            await asyncio.sleep(0.01)
            await self._runner.cleanup()
            self._runner = None

    async def stop(self) -> None:
        """Close for good."""
        await self.close()
        if self._session is not None:
            await self._session.close()

    async def _answer(self, request: web.Request) -> web.Response:
        call = Call(
            next(self._order),
            request.method,
            request.path,
            request.rel_url.raw_query_string,
            request.headers,
            await request.read(),
        )
        self.calls.append(call)
        fault = self.script(call)
        answer = await (self._forward(call) if fault is None else self._misbehave(call, fault, request))
        call.told = answer.status
        return answer

    async def _misbehave(self, call: Call, fault: Fault, request: web.Request) -> web.Response:
        self.faults += 1
        if fault.wait_seconds:
            await asyncio.sleep(fault.wait_seconds)
        answer = await self._forward(call) if fault.after_commit or not (fault.status or fault.drop) else None
        if fault.drop:
            return _break(request)
        if fault.status or answer is None:
            return web.Response(status=fault.status, headers=dict(fault.headers), body=fault.body)
        return answer

    async def _forward(self, call: Call) -> web.Response:
        assert self._session is not None
        # As it came: the `#` of a visit number's system must not begin a fragment.
        url = URL(f"{self.upstream}{call.path}" + (f"?{call.query}" if call.query else ""), encoded=True)
        headers = {name: value for name, value in call.headers.items() if name.lower() not in HOP_BY_HOP}
        try:
            async with self._session.request(call.method, url, headers=headers, data=call.body or None) as answer:
                call.answer = await answer.read()
                call.answer_headers = answer.headers
                call.status = answer.status
        except aiohttp.ClientError:
            return web.Response(status=503)
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        return web.Response(status=call.status, headers=kept, body=call.answer)


def _break(request: web.Request) -> web.Response:
    if request.transport is not None:
        with contextlib.suppress(OSError):
            request.transport.abort()
    return web.Response(status=599)


def _last(path: str) -> str:
    return path.rpartition("/")[2]
