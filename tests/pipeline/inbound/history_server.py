"""A FHIR server over real HTTP that has a history and Subscriptions, keeps time as told, and fails as told."""

import itertools
import random
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import orjson
from aiohttp import web

from engine.config.channel import Channel
from engine.deliver.destination import FhirDestination
from engine.deliver.fhir_reader import FhirReader

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
JSON = "application/fhir+json"
ENDPOINT = "https://engine.example:8443"


class HistoryServer:
    """Versions of Patients and Encounters, newest first and page by page.

    `answers`: statuses of the next answers, 0 for the true one. `says`: the host that links name. `pages_at_base`:
    links lead to the base itself, as HAPI's. `shuffled`: pages in no order. `forgets_since`: a server that gives all it
    has. `refused`: statuses by method and path of Subscriptions. `lists`: the types that its CapabilityStatement names.
    """

    def __init__(self) -> None:
        self.now = NOON
        self.versions: dict[str, list[dict[str, Any]]] = {"Patient": [], "Encounter": []}
        self.numbers: dict[str, int] = {}
        self.asked: list[str] = []
        self.answers: deque[int] = deque()
        self.bodies: deque[bytes] = deque()
        self.unsupported = 0
        self.page = 200
        self.says = ""
        self.pages_at_base = False
        self.shuffled: random.Random | None = None
        self.forgets_since = False
        self.dated = True
        # Called once a page of history is made.
        self.answered: Callable[[], None] = lambda: None
        self.subscriptions: dict[str, dict[str, Any]] = {}
        self.searches = True
        self.refused: dict[str, int] = {}
        self.lists: tuple[str, ...] = ()
        self._ids = itertools.count(1)
        self.base = ""
        self._runner: web.AppRunner | None = None

    async def start(self) -> "HistoryServer":
        """Listen on a free port."""
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.base = f"http://127.0.0.1:{self._runner.addresses[0][1]}/fhir/R4"
        return self

    async def stop(self) -> None:
        """Close."""
        if self._runner is not None:
            await self._runner.cleanup()

    def tick(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def write(self, reference: str, *, deleted: bool = False, late: float = 0.0, told: bool = True) -> str:
        """Make a version, committed now with a moment `late` seconds ago; return its name."""
        type_, _, logical_id = reference.partition("/")
        number = self.numbers[reference] = self.numbers.get(reference, 0) + 1
        at = (self.now - timedelta(seconds=late)).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {
            "fullUrl": f"{self.base}/{reference}",
            "request": {"method": "DELETE" if deleted else "PUT", "url": reference},
            "response": {"status": "200", "etag": f'W/"{number}"'} | ({"lastModified": at} if told else {}),
        }
        if not deleted:
            meta = {"versionId": str(number), "lastUpdated": at}
            entry["resource"] = {"resourceType": type_, "id": logical_id, "meta": meta, "active": True}
        self.versions[type_].append({"at": at, "entry": entry})
        return f"{reference}/{number}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/fhir/R4/")
        self.asked.append(f"{request.method} {path}")
        headers = {"Date": format_datetime(self.now, usegmt=True)} if self.dated else {"Date": "none"}
        status, body = self._answer(request, path, await request.read())
        return web.Response(status=status, body=body, content_type=JSON, headers=headers)

    def _answer(self, request: web.Request, path: str, body: bytes) -> tuple[int, bytes]:
        status = self.answers.popleft() if self.answers else 0
        if status:
            return status, b""
        if self.bodies:
            return 200, self.bodies.popleft()
        if path.startswith("Subscription"):
            return self._subscription(request, path, body)
        if path == "/fhir/R4":
            path = request.query["_getpages"]
        type_, _, rest = path.partition("/")
        if rest != "_history":
            rest = {"mode": "server", "resource": [{"type": one} for one in self.lists]}
            return 200, orjson.dumps({"resourceType": "CapabilityStatement", "rest": [rest] if self.lists else []})
        if self.unsupported:
            return self.unsupported, b""
        page = self._history(request, type_)
        self.answered()
        return 200, page

    def _history(self, request: web.Request, type_: str) -> bytes:
        since = datetime.fromisoformat(request.query.get("_since", "2000-01-01T00:00:00Z"))
        begin, count = int(request.query.get("skip", 0)), min(int(request.query["_count"]), self.page)
        found = [
            one for one in self.versions[type_] if self.forgets_since or datetime.fromisoformat(one["at"]) >= since
        ]
        found = sorted(found, key=lambda one: str(one["at"]))
        entries = [one["entry"] for one in reversed(found)]
        if self.shuffled is not None:
            self.shuffled.shuffle(entries)
        bundle: dict[str, Any] = {"resourceType": "Bundle", "type": "history", "entry": entries[begin : begin + count]}
        if begin + count < len(entries):
            query = f"_since={request.query.get('_since', '')}&_count={count}&skip={begin + count}"
            base = self.base.replace(f"http://{request.host}", self.says) if self.says else self.base
            url = (
                f"{base}?_getpages={type_}/_history&{query}"
                if self.pages_at_base
                else f"{base}/{type_}/_history?{query}"
            )
            bundle["link"] = [{"relation": "self", "url": self.base}, {"relation": "next", "url": url}]
        return orjson.dumps(bundle)

    def _subscription(self, request: web.Request, path: str, body: bytes) -> tuple[int, bytes]:
        logical_id = path.partition("/")[2]
        if status := self.refused.get(f"{request.method} {path}", 0):
            return status, b""
        if request.method == "POST":
            logical_id = f"s{next(self._ids)}"
        elif request.method == "GET" and not logical_id:
            if not self.searches:
                return 400, b""
            kept = [one for one in self.subscriptions.values() if one["channel"]["endpoint"] == request.query["url"]]
            return 200, orjson.dumps({"resourceType": "Bundle", "entry": [{"resource": one} for one in kept]})
        elif logical_id not in self.subscriptions:
            return 404, b""
        if request.method != "GET":
            self.subscriptions[logical_id] = orjson.loads(body) | {"id": logical_id, "status": "active"}
        return 201 if request.method == "POST" else 200, orjson.dumps(self.subscriptions[logical_id])


def channel_of(base: str, source: str = "history", **keys: Any) -> Channel:
    """Return a channel of the events of a server."""
    by_subscription = {"endpoint": ENDPOINT, "token": {"env": "EVENTS_TOKEN"}} if source == "subscription" else {}
    server = {"name": "record", "base_url": base} | keys.pop("settings", {})
    fhir = {"path": "registry", "server": server, "source": source} | by_subscription | keys
    relay = {"name": "ehr", "type": "mllp", "host": "127.0.0.1", "port": 9}
    return Channel.model_validate({"channel": "back", "listen": {"fhir": fhir}, "destinations": [relay]})


def reader_of(channel: Channel) -> FhirReader:
    """Return what asks the server of a channel."""
    assert channel.listen.fhir is not None
    return FhirReader(FhirDestination(channel.listen.fhir.server, channel, clock=lambda: NOON, new_id=lambda: "1"))
