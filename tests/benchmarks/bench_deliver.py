"""What a delivery costs: CPU of this process per update of a cached patient, beside the transports to choose from.

    python tests/benchmarks/bench_deliver.py [--updates N]

The sink (sink.py) runs in another process on the same machine; figures are CPU microseconds of the engine's side.
"""

import argparse
import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import orjson
import uvloop

from engine.config.channel import Channel
from engine.deliver.destination import FhirDestination
from engine.deliver.verdict import KnownIdentifier
from engine.deliver.wire.client import FhirClient
from engine.fhir.plan import ElementChange, Identity, PatientRecord, Plan, Upsert
from engine.http.request import HttpRequest

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
MRN = "https://mrn.riverbend.example"
PATIENTS = 500


class Forgetful:
    """A memory that knows nothing."""

    async def known(self, _identities: Any) -> dict[Identity, KnownIdentifier]:
        """Know nobody."""
        return {}

    async def owned(self, _resource: str, _source: str) -> dict[str, tuple[str, ...]]:
        """Own nothing."""
        return {}

    async def claimed(self, _resource: str, _source: str) -> frozenset[str]:
        """Know of no claims."""
        return frozenset()

    async def merged(self, _source: Identity, _survivor: Identity) -> bool:
        """Know no merge."""
        return False

    async def leads(self, _source: Identity, _survivors: object) -> bool:
        """Know no merge."""
        return False

    def other_forms(self, _identity: Identity) -> tuple[Identity, ...]:
        """Know of no other forms."""
        return ()

    async def survivor(self, _logical_id: str) -> str:
        """Know no survivor."""
        return ""


def record(number: int, turn: int) -> PatientRecord:
    """Return what a typical A08 says: a dozen changes, of which one differs each turn."""
    mr = {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0203", "code": "MR"}]}
    value = f"RB-{number}"
    changes = (
        ElementChange(
            "name", "PID-5", ({"use": "official", "family": "Quintero", "given": ["Marisol", "Ines"]},), many=True
        ),
        ElementChange("birthDate", "birthDate", ("1984-02-29",), many=False),
        ElementChange("gender", "gender", ("female",), many=False),
        ElementChange(
            "address",
            "PID-11",
            ({"line": [f"{turn} Alder Way"], "city": "Keswick", "state": "OR", "postalCode": "97301"},),
            many=True,
        ),
        ElementChange(
            "telecom", "PID-13", ({"system": "phone", "value": "+1 503 555 0142", "use": "home"},), many=True
        ),
        ElementChange(
            "telecom", "PID-14", ({"system": "phone", "value": "+1 503 555 0143", "use": "work"},), many=True
        ),
        ElementChange(
            "maritalStatus",
            "maritalStatus",
            ({"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus", "code": "M"}]},),
            many=False,
        ),
        ElementChange(
            "communication",
            "PID-15",
            ({"language": {"coding": [{"system": "urn:ietf:bcp:47", "code": "en"}]}},),
            many=True,
        ),
        ElementChange("deceasedBoolean", "deceasedBoolean", (False,), many=False),
        ElementChange(
            "extension",
            "http://hl7.org/fhir/StructureDefinition/patient-religion",
            (
                {
                    "url": "http://hl7.org/fhir/StructureDefinition/patient-religion",
                    "valueCodeableConcept": {"text": "x"},
                },
            ),
            many=True,
        ),
        ElementChange(
            "contact",
            "NK1",
            ({"name": {"family": "Quintero", "given": ["Luis"]}, "telecom": [{"system": "phone", "value": "1"}]},),
            many=True,
        ),
    )
    identifiers = (
        {"type": mr, "system": MRN, "value": value},
        {"system": "http://hl7.org/fhir/sid/us-ssn", "value": f"{number:09d}"},
    )
    return PatientRecord((Identity(MRN, value),), identifiers, changes, placeholder=False)


def cpu() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(name: str, one: Callable[[int], Awaitable[Any]], count: int, at_once: int) -> None:
    """Run `one` so many times, so many at once, and print a line."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    before, begun = cpu(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    spent, took = cpu() - before, time.perf_counter() - begun
    print(f"{name:44} {at_once:3d} at once {spent / count * 1e6:8.1f} us CPU {count / took:8.0f}/s", flush=True)  # noqa: T201


async def transports(base: str, count: int) -> None:
    """Compare httpx's own pool, httpx over aiohttp, and the client of deliver, for one PUT of a Patient."""
    content = orjson.dumps({"resourceType": "Patient", "name": [{"family": "x" * 400}]})
    url, headers = f"{base}/Patient/t1", {"Content-Type": "application/fhir+json", "If-Match": 'W/"1"'}
    for at_once in (1, 16):
        async with httpx.AsyncClient(trust_env=False) as stock:
            await measure(
                "httpx, its own pool", lambda _: stock.put(url, content=content, headers=headers), count // 4, at_once
            )
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
            httpx.AsyncClient(transport=_OverAiohttp(session), trust_env=False) as over,
        ):
            await measure(
                "httpx over an aiohttp session",
                lambda _: over.put(url, content=content, headers=headers),
                count // 2,
                at_once,
            )
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            thin = _OverAiohttp(session)
            await measure(
                "httpx.Request over an aiohttp session",
                lambda _, thin=thin: thin.handle_async_request(
                    httpx.Request("PUT", url, content=content, headers=headers)
                ),
                count // 2,
                at_once,
            )
        client = FhirClient(request_seconds=30)
        pairs = list(headers.items())
        await measure(
            "deliver.client (httpx.Request over httptools)",
            lambda _, client=client, pairs=pairs: client.send("PUT", url, pairs, content),
            count,
            at_once,
        )
        await client.close()


class _OverAiohttp(httpx.AsyncBaseTransport):
    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        names = dict(request.headers)
        async with self._session.request(
            request.method, str(request.url), headers=names, data=request.content
        ) as answer:
            return httpx.Response(answer.status, headers=dict(answer.headers), content=await answer.read())


async def deliveries(base: str, count: int) -> None:
    """Measure whole deliveries: creates, updates of cached patients, and updates that change nothing."""
    settings = {"name": "sink", "base_url": base}
    channel = Channel.model_validate({"channel": "bench", "listen": {"mllp": {"port": 0}}, "destinations": [settings]})
    destination = FhirDestination(channel.destinations[0], channel, clock=lambda: AT, new_id=lambda: "id")
    await destination.check()
    memory = Forgetful()

    async def intend(request: HttpRequest) -> None:
        await asyncio.sleep(0)

    def plan(number: int, turn: int) -> Plan:
        return Plan("A08", "ADT|RVB", AT, 14, (Upsert(record(number, turn)),))

    async def one(number: int, turn: int, reason: str) -> None:
        verdict = await destination.deliver(plan(number % PATIENTS, turn), memory, intend, at=AT)
        assert verdict.reason == reason, verdict

    await measure("delivery: create (search, POST, verify)", lambda n: one(n, 0, "created"), PATIENTS, 16)
    for at_once in (1, 16):
        turn = at_once * 1000
        await measure(
            "delivery: update of a cached patient",
            lambda n, t=turn: one(n, t + n // PATIENTS, "updated"),
            count,
            at_once,
        )  # type: ignore[misc]
    begun = cpu()
    for number in range(count):
        plan(number % PATIENTS, number)
    print(f"{'(of which making the plan here)':44}             {(cpu() - begun) / count * 1e6:8.1f} us CPU")  # noqa: T201
    await destination.close()


async def main(count: int) -> None:
    """Start the sink and print the table."""
    sink = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, str(Path(__file__).with_name("sink.py"))], stdout=subprocess.PIPE, text=True
    )
    try:
        assert sink.stdout is not None
        base = f"http://{sink.stdout.readline().split()[-1]}/fhir/R4"
        await transports(base, count)
        await deliveries(base, count)
    finally:
        sink.terminate()
        sink.wait()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--updates", type=int, default=4000)
    uvloop.run(main(options.parse_args().updates))
