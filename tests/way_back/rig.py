"""A service, an engine as a process that keeps it up to date, and an old system that learns what changes there."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.fhir.json import JsonObject
from tests.flow.feed import SYSTEM
from tests.flow.rig import POLL_SECONDS, Rig, channel_file, destination, write
from tests.relay.receiver import Receiver
from tests.relay.rig import relay

FEED: Final = "riverbend-adt"
BACK: Final = "registry-back"


class MessageFacts(NamedTuple):
    """What a message says: event, the patient's number, and where a visit is."""

    event: str
    number: str
    place: str


class WayBackRig(Rig):
    """`ehr` gets the messages of what changes at the service; `events` are keys of `listen.fhir`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ehr = Receiver()
        self.events: dict[str, Any] = {"source": "history", "every_seconds": 0.1}
        self.relay: dict[str, Any] = {}
        # Keys of the channel of the feed.
        self.feed: dict[str, Any] = {}
        # Held while the service is changed, and while it is down.
        self.quiet = asyncio.Lock()
        # Whether more changes are to come.
        self.busy = True

    async def begin(self, **environment: str) -> None:
        """Write the channel files and start the engine."""
        if not self.ehr.port:
            await self.ehr.start()
        self.describe(self.ehr.port)
        await self.engine.start(**environment)
        await self.engine.line("started")

    def describe(self, port: int) -> None:
        """Write the channel files: of the feed, and of what goes back to a port."""
        server = destination(self.proxy.url)
        write(self.folder / "channels" / f"{FEED}.yaml", channel_file(self.proxy.url) | self.feed)
        back = {
            "channel": BACK,
            "listen": {"fhir": {"path": "registry", "server": server} | self.events},
            "timezone": "America/New_York",
            "authorities": {"RVB": SYSTEM},
            "destinations": [relay("ehr", port, outgoing={"receiving_application": "EHR"}, **self.relay)],
        }
        write(self.folder / "channels" / f"{BACK}.yaml", back)

    async def put(self, resource: JsonObject) -> JsonObject:
        """Write a resource as it is given, whatever its version is there, and return it."""
        path = f"/{resource['resourceType']}/{resource['id']}"
        status, body = await self.call("PUT", path, resource)
        assert status in {200, 201}, (status, body)
        found: JsonObject = body
        return found

    async def change(self, reference: str, **elements: Any) -> JsonObject:
        """Change elements of a resource; None takes one away."""
        resource = await self.get(f"/{reference}") | elements
        return await self.put({key: value for key, value in resource.items() if value is not None})

    async def remove(self, reference: str) -> None:
        """Delete a resource."""
        status, body = await self.call("DELETE", f"/{reference}")
        assert status == 204, body

    async def merge(self, gone: str, kept: str) -> None:
        """Merge two records, as somebody does at the service."""
        sides = {"source-patient": gone, "target-patient": kept}
        parameters = [{"name": name, "valueReference": {"reference": one}} for name, one in sides.items()]
        body = {"resourceType": "Parameters", "parameter": parameters}
        status, answer = await self.call("POST", "/Patient/$merge", body)
        assert status == 200, answer

    def messages(self) -> list[bytes]:
        """Return the messages that the old system got, each once, in the order in which they came first."""
        return list(dict.fromkeys(self.ehr.raws))

    async def some(self, count: int) -> None:
        """Wait until so many more messages have come, or none will."""
        wanted = len(self.ehr.received) + count
        while self.busy and len(self.ehr.received) < wanted:
            with contextlib.suppress(AssertionError):
                await self.ehr.until(wanted, 1.0)

    async def until_messages(self, count: int) -> None:
        """Wait until so many different messages have come, and nothing is under way."""
        async with asyncio.timeout(120):
            while len(self.messages()) < count:
                assert self.engine.alive, self.engine.log()
                await self.ehr.until(len(self.ehr.received) + 1)
        await self.drained()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Ask the journal."""
        return self._query(sql)

    async def rounds(self, count: int) -> None:
        """Wait until the engine has asked for the history so many times more."""
        asked = len(self.proxy.calls)
        async with asyncio.timeout(60):
            while sum("Patient/_history" in one.path for one in self.proxy.calls[asked:]) < count:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """End everything."""
        await super().close()
        await self.ehr.stop()


@contextlib.asynccontextmanager
async def way_back_rig(folder: Path) -> AsyncIterator[WayBackRig]:
    """Give a rig whose service runs; the test starts the engine."""
    rig = WayBackRig(folder)
    try:
        await rig.open()
        yield rig
    finally:
        await rig.close()


def patient(number: str, **elements: Any) -> JsonObject:
    """Return a patient with a number of the feed's system."""
    return {
        "resourceType": "Patient",
        "identifier": [{"system": SYSTEM, "value": number}],
        "name": [{"use": "official", "family": "Quintero", "given": ["Marisol"]}],
        "gender": "female",
        "birthDate": "1984-02-29",
    } | elements


def visit(holder: str, status: str, ward: str = "", **elements: Any) -> JsonObject:
    """Return a visit of a patient (`Patient/1`), in a ward (`Location/1`)."""
    place = {"location": [{"location": {"reference": ward}, "status": "active"}]} if ward else {}
    return {
        "resourceType": "Encounter",
        "status": status,
        "class": {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP"},
        "subject": {"reference": holder},
        **place,
    } | elements


def facts_of(raw: bytes) -> MessageFacts:
    """Return what a message says."""
    segments = {line.split("|")[0]: line.split("|") for line in raw.decode().split("\r") if line}
    visit_place = segments["PV1"][3] if "PV1" in segments and len(segments["PV1"]) > 3 else ""
    return MessageFacts(segments["MSH"][8].split("^")[1], segments["PID"][3].split("^")[0], visit_place.split("^")[0])
