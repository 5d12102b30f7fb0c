"""The whole engine as a black box: service, recording proxy and engine as real processes on one folder."""

import asyncio
import contextlib
import hashlib
import secrets
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp
import orjson
from yarl import URL

from engine.database.postgresql import PostgresqlError, connect
from tests.flow.feed import SYSTEM, FeedMessage
from tests.flow.program import Program
from tests.flow.proxy import Proxy
from tests.flow.sender import Sender

SECRET: Final = "flow-secret-8f2c"
DRAIN_SECONDS: Final = 90.0  # less than a test may take, so that what is left is told
POLL_SECONDS: Final = 0.03
UNFINISHED: Final = ("received", "claimed", "waiting")

ROWS: Final = """
    SELECT entry.seq, entry.control_id, coalesce(delivery.state, entry.state),
           coalesce(delivery.reason, entry.reason), coalesce(delivery.notes, '[]'), payload.raw
    FROM entry JOIN payload USING (seq) LEFT JOIN delivery USING (seq) ORDER BY entry.seq
"""
ATTEMPTS: Final = """
    SELECT attempt.seq, number, method, url, answer.status
    FROM attempt LEFT JOIN answer ON answer.attempt = attempt.id ORDER BY attempt.seq, number
"""
OPEN: Final = f"SELECT count(*) FROM delivery WHERE state IN {UNFINISHED}"  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of the journal: where it came in the order, its bytes, and how it ended."""

    seq: int
    control_id: str
    state: str
    reason: str
    notes: str
    raw: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.raw).digest()


@dataclass(frozen=True, slots=True)
class Tried:
    """One journaled attempt; `status` None where it has no outcome, 0 where no answer came."""

    seq: int
    number: int
    method: str
    url: str
    status: int | None


class Rig:
    """One folder with a service, a proxy before it, and an engine that delivers through the proxy.

    `journal` is the address of the database that keeps the journal; empty: a file in the data folder.
    """

    journal = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proxy = Proxy()
        self.service_port = free_port()
        self.service = Program(
            folder,
            *("interchange", "--config", "service.yaml", "--host", "127.0.0.1", "--port", str(self.service_port)),
            *("--database", f"sqlite:///{folder}/service.db"),
            environment={"ENGINE_SECRET": SECRET},
        )
        shared = ("--journal", self.journal, "--node", "n1") if self.journal else ()
        arguments = ("run", "--channels", "channels", "--data", "data", *shared)
        self.engine = Program(folder, *arguments, environment={"ENGINE_SECRET": SECRET})
        self._token = ""
        self._session: aiohttp.ClientSession | None = None

    async def open(self, **channel: Any) -> "Rig":
        """Start service and proxy and write the channel file; keywords override keys of the channel."""
        write(self.folder / "service.yaml", service_file(self.service_port))
        await self.service.start()
        await self.proxy.start(f"http://127.0.0.1:{self.service_port}")
        write(self.folder / "channels" / "riverbend-adt.yaml", channel_file(self.proxy.url) | channel)
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30))
        return self

    async def close(self) -> None:
        """End every process and close every socket, whatever state they are in."""
        for program in (self.engine, self.service):
            if program.alive:
                await program.kill()
        await self.proxy.stop()
        if self._session is not None:
            await self._session.close()

    async def address(self) -> tuple[str, int]:
        """Wait until the engine listens and say where."""
        return "127.0.0.1", await self.engine.up()

    def sender(self, feed: Sequence[FeedMessage], connections: int) -> Sender:
        """Return a sender of the feed to this engine."""
        return Sender(feed, connections, self.address)

    async def drained(self, seconds: float = DRAIN_SECONDS) -> None:
        """Wait until the journal holds no unfinished work; AssertionError with what is left where it stands still.

        `seconds`: how long nothing may come to its end; how much there is to do does not matter.
        """
        least = -1
        try:
            while open_now := self._query(OPEN)[0][0]:
                if least < 0 or open_now < least:
                    least, until = open_now, asyncio.get_running_loop().time() + seconds
                assert self.engine.alive, f"the engine ended with work left\n{self.engine.log()}"
                async with asyncio.timeout_at(until):
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            left = [(row.seq, row.state, row.reason) for row in self.rows() if row.state in UNFINISHED]
            raise AssertionError(f"not drained: {left[:20]} of {len(left)}\n{self.engine.log()}") from None

    async def until(self, condition: Callable[[list[Row]], bool], seconds: float = 60.0) -> list[Row]:
        """Wait until the journal's rows fulfil a condition and return them; AssertionError where they never do."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    begun = time.process_time()
                    if condition(rows := self.rows()):
                        return rows
                    # Looking at a long journal takes its time from those who write it.
                    await asyncio.sleep(max(POLL_SECONDS, 10 * (time.process_time() - begun)))
        except TimeoutError:
            left = Counter((row.state, row.reason) for row in self.rows())
            raise AssertionError(f"the journal never came so far: {left}\n{self.engine.log()}") from None

    def rows(self, destination: str = "") -> list[Row]:
        """Return the journal's entries in order, each once for every destination, or as it ended at one."""
        named = f"ON delivery.seq = entry.seq AND delivery.destination = '{destination}'"
        sql = ROWS.replace("LEFT JOIN delivery USING (seq)", f"LEFT JOIN delivery {named}") if destination else ROWS
        return [Row(*row) for row in self._query(sql)]

    def attempts(self) -> list[Tried]:
        """Return the journaled attempts in order."""
        return [Tried(*row) for row in self._query(ATTEMPTS)]

    async def patients(self) -> dict[str, dict[str, Any]]:
        """Return every Patient of the service by id, merged-away ones too."""
        found: dict[str, dict[str, Any]] = {}
        url = "/Patient?_count=100"
        while url:
            bundle = await self.get(url)
            found |= {entry["resource"]["id"]: entry["resource"] for entry in bundle.get("entry", [])}
            links = {link["relation"]: link["url"] for link in bundle.get("link", [])}
            url = links.get("next", "").partition("/fhir/R4")[2]
        waiting = list(found)
        while waiting:
            for link in found[waiting.pop()].get("link", []):
                other = link["other"]["reference"].rpartition("/")[2]
                if other not in found:
                    found[other] = await self.get(f"/Patient/{other}")
                    waiting.append(other)
        return found

    async def visits(self, patients: Iterable[str]) -> list[dict[str, Any]]:
        """Return every Encounter of the patients with these ids, each once."""
        found: dict[str, dict[str, Any]] = {}
        for logical_id in patients:
            bundle = await self.get(f"/Encounter?patient={logical_id}&_count=100")
            found |= {entry["resource"]["id"]: entry["resource"] for entry in bundle.get("entry", [])}
        return list(found.values())

    async def numbered(self, number: str) -> list[dict[str, Any]]:
        """Return the Patients that the service finds by a number of the feed's system."""
        bundle = await self.get(f"/Patient?identifier={SYSTEM}|{number}")
        return [entry["resource"] for entry in bundle.get("entry", [])]

    async def get(self, path: str) -> Any:
        """Read something from the service itself, past the proxy."""
        assert self._session is not None
        if not self._token:
            self._token = await self._new_token()
        url = f"http://127.0.0.1:{self.service_port}/fhir/R4{path}"
        async with self._session.get(url, headers={"Authorization": f"Bearer {self._token}"}) as answer:
            text = await answer.read()
            assert answer.status == 200, (answer.status, path, text[:300])
            return orjson.loads(text)

    async def make(self, body: Mapping[str, Any]) -> Any:
        """Create a resource at the service itself, past the proxy, and return it."""
        assert self._session is not None
        if not self._token:
            self._token = await self._new_token()
        url = f"http://127.0.0.1:{self.service_port}/fhir/R4/{body['resourceType']}"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/fhir+json"}
        async with self._session.post(url, data=orjson.dumps(body), headers=headers) as answer:
            text = await answer.read()
            assert answer.status == 201, (answer.status, text[:300])
            return orjson.loads(text)

    async def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Ask the service itself, past the proxy, and return status and body, whatever they are."""
        assert self._session is not None
        if not self._token:
            self._token = await self._new_token()
        url = URL(f"http://127.0.0.1:{self.service_port}/fhir/R4{path}", encoded=True)
        sent = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/fhir+json"} | dict(headers or {})
        data = None if body is None else orjson.dumps(body)
        async with self._session.request(method, url, data=data, headers=sent) as answer:
            return answer.status, orjson.loads(await answer.read() or b"null")

    async def ask(self, act: str, **given: Any) -> Any:
        """Ask the running engine over its admin socket, as its commands do."""
        return await self.ask_in("data", act, **given)

    async def ask_in(self, data: str, act: str, **given: Any) -> Any:
        """Ask the engine of a data folder; it takes messages a moment before it opens its admin socket."""
        socket = self.folder / data / "admin.sock"
        async with asyncio.timeout(60):
            while not socket.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(POLL_SECONDS)
        reader, writer = await asyncio.open_unix_connection(str(socket), limit=1 << 24)
        writer.write(orjson.dumps({"do": act, "with": given}) + b"\n")
        try:
            async with asyncio.timeout(60):
                return orjson.loads(await reader.read())
        finally:
            writer.close()
            await writer.wait_closed()

    async def _new_token(self) -> str:
        assert self._session is not None
        form = {"grant_type": "client_credentials", "client_id": "engine", "client_secret": SECRET}
        form["scope"] = "system/*.*"
        url = f"http://127.0.0.1:{self.service_port}/oauth/token"
        async with self._session.post(url, data=form) as answer:
            return str((await answer.json())["access_token"])

    def ask_database(self, sql: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        """Ask the journal's database, where it is none of files."""
        with contextlib.closing(connect(self.journal)) as connection:
            cursor = connection.execute(sql, tuple(values))
            return cursor.fetchall() if cursor.description else []

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        if self.journal:
            try:
                return self.ask_database(sql)
            except PostgresqlError:
                return [(1,)] if sql == OPEN else []
        files = list((self.folder / "data").glob("*.db"))
        if not files:
            return [(0,)] if sql == OPEN else []
        with contextlib.closing(sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True, timeout=60)) as journal:
            return journal.execute(sql).fetchall()


@contextlib.asynccontextmanager
async def running(folder: Path, **channel: Any) -> AsyncIterator[Rig]:
    """Give a rig with service and proxy running; the test starts the engine."""
    rig = Rig(folder)
    try:
        yield await rig.open(**channel)
    finally:
        await rig.close()


def service_file(port: int) -> dict[str, Any]:
    """Return the service's configuration."""
    return {
        "environment": "sandbox",
        "base_url": f"http://127.0.0.1:{port}",
        "service_identifier_system": "https://cdis.example",
        "tenants": {"riverbend": {}},
        "clients": {
            "engine": {
                "tenant": "riverbend",
                "secret": {"env": "ENGINE_SECRET"},
                "scopes": ["system/*.*"],
                "role": "system-integration",
            }
        },
    }


def channel_file(server: str) -> dict[str, Any]:
    """Return a channel that delivers to `server` and gives up on nothing quickly."""
    return {
        "channel": "riverbend-adt",
        "listen": {"mllp": {"host": "127.0.0.1", "port": 0}},
        "allow": ["127.0.0.0/8"],
        "allow_merge": True,
        "merge_limit": {"merges": 1_000_000, "minutes": 10},
        "mapping": "adt",
        "timezone": "America/New_York",
        "authorities": {"RVB": SYSTEM},
        "limits": {"connections": 256, "connections_per_address": 256},
        "destinations": [destination(server)],
    }


def destination(server: str, **settings: Any) -> dict[str, Any]:
    """Return a destination at `server`, with short waits."""
    return {
        "name": "interchange",
        "base_url": f"{server}/fhir/R4",
        "auth": {
            "type": "client_credentials",
            "token_url": f"{server}/oauth/token",
            "client_id": "engine",
            "client_secret": {"env": "ENGINE_SECRET"},
            "scope": "system/*.*",
        },
        "if_none_exist": "demographics",
        "retry": {"first_seconds": 0.05, "max_seconds": 0.4},
    } | settings


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write a configuration file as JSON, which is YAML too."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(orjson.dumps(content))


def free_port() -> int:
    """Return a port that nobody has, below those that systems give away, so that it is free for every life to come."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as place, contextlib.suppress(OSError):
            place.bind(("127.0.0.1", port))
            return port
