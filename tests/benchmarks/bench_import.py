"""What the import of retrieved facts costs: CPU, how long a batch keeps the writer, and what reads notice of it.

    python -m tests.benchmarks.bench_import [--facts 1000] [--standing 5000] [--json]

A FHIR Bundle of one invented person is imported into a service: into an empty chart, once more under another number
(all facts are known), by another organization (each gets a second source), and into a chart of so many resources. CPU
is the whole process's, with reading the document. Then three sources at once, while a client reads one Patient after
the other over HTTP: its p50 and p99 with and without them.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from engine import interpreter
from engine.config.service import Tenant
from engine.fhir.schema import FhirVersion
from engine.interchange.app.application import create_app
from engine.interchange.clinical.synthetic.chart import synthetic_chart
from engine.interchange.clinical.synthetic.chart import transaction as bundle_of
from engine.interchange.kernel.exact import write_json
from engine.interchange.network.patient360.connectors.connector import FHIR, RetrievedDocument
from engine.interchange.network.patient360.importing import Importer, ImportOutcome
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.network.patient360.record import Words
from engine.interchange.network.patient360.retrieve import KIND
from engine.interchange.store.job import AsyncJob
from engine.interchange.store.transaction import Transaction
from tests.benchmarks.machine import machine
from tests.interchange.kit import MRN, SYSTEM, Running, configuration, patient, running, secret_file
from tests.interchange.patient360.papers import ADDRESS
from tests.interchange.patient360.sources import settings
from tests.interchange.patient360.test_directory_source import lay

Json = Any
TENANT: Final = "riverbend"
PERSON: Final = {**patient(address=ADDRESS), "id": "4e5a8a54-8f2b-4d57-9c3a-7a2f3c1d5e60"}


def document(organization: str, number: str, facts: int, seed: str = "bench") -> RetrievedDocument:
    """Return a Bundle of an organization that tells so many facts of the person."""
    chart = synthetic_chart(seed, facts=facts, patient=PERSON)
    bundle = {**bundle_of(chart), "type": "collection", "identifier": {"system": "urn:bench", "value": number}}
    for entry in bundle["entry"]:
        entry.pop("request", None)
    return RetrievedDocument(organization, number, "2026-03-02T06:00:00Z", FHIR, write_json(bundle), FhirVersion.R4)


@contextmanager
def holds() -> Iterator[list[float]]:
    """Note how many milliseconds each batch takes in the writer's thread."""
    found: list[float] = []
    write_batch = Importer._write_batch

    def timed(self: Importer, record: Any, steps: Any, beside: Any, transaction: Transaction) -> Any:
        began = time.perf_counter()
        try:
            return write_batch(self, record, steps, beside, transaction)
        finally:
            found.append((time.perf_counter() - began) * 1000)

    Importer._write_batch = timed  # type: ignore[method-assign]
    try:
        yield found
    finally:
        Importer._write_batch = write_batch  # type: ignore[method-assign]


async def imports(folder: Path, facts: int, standing: int) -> dict[str, Json]:
    """Return the cost of each import."""
    app = create_app(configuration(secret_file(folder)), folder / "bench.db")
    service = app.service

    async def take(who: str, one: RetrievedDocument) -> ImportOutcome:
        job = AsyncJob("job", TENANT, KIND, who, FhirVersion.STU3, {}, "bench", "", service.clock())
        return await Importer(service, job, read_document, Words(SYSTEM)).take(one)

    async def measured(who: str, one: RetrievedDocument) -> dict[str, Json]:
        with holds() as batches:
            began, cpu = time.perf_counter(), time.process_time()
            outcome = await take(who, one)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        counts = {str(name): number for name, number in outcome.counts.items()}
        told = {
            "cpu_s": round(cpu, 2),
            "seconds": round(seconds, 2),
            "longest_batch_ms": round(max(batches, default=0)),
        }
        return {**told, "batches": len(batches), **counts, "invalid": outcome.invalid}

    async def person(name: str) -> str:
        await service.store.write(TENANT, lambda inner: inner.create("Patient", name, {**PERSON, "id": name}))
        return name

    try:
        await take(await person("warm"), document("Warm Clinic", "w", 60))
        interpreter.settle()  # as the service does at its start
        who = await person("empty")
        large = await person("large")
        if standing:
            await take(large, document("Old Archive", "o", standing, seed="standing"))
        return {
            "into an empty chart": await measured(who, document("Pine Ridge", "1", facts)),
            "once more, under another number": await measured(who, document("Pine Ridge", "2", facts)),
            "by another organization": await measured(who, document("Lake HIE", "3", facts)),
            f"into a chart of {standing}": await measured(large, document("Pine Ridge", "4", facts)),
        }
    finally:
        app.close()


def reads(folder: Path, facts: int) -> dict[str, Json]:
    """Return how long reads take of a service in its own process, beside a retrieval of three folders, and alone."""
    sources = {}
    for name in ("Pine Ridge", "Lake HIE", "Hill Lab"):
        lay(folder / name / "RB-1" / "chart.json", document(name, name, facts, seed=name).body)
        sources[name.replace(" ", "-")] = settings(type="directory", organization=name, folder=str(folder / name))
    tenants = {TENANT: Tenant(network_mode="real", connectors=sources), "lakeside": Tenant(), "lax": Tenant()}
    with running(folder, tenants=tenants) as service:
        number = [{"system": MRN, "value": "RB-1"}]
        who = service.create(address=ADDRESS, identifier=number)["id"]
        other = service.create()["id"]
        alone = _latencies(service, other, lambda count: count < 1000)
        path = f"/fhir/DocumentReference/${KIND}?patient={who}"
        answer = service.ask("POST", path, headers={"prefer": "respond-async"})
        handle = answer.headers["location"].removeprefix(service.url)
        beside = _latencies(service, other, partial(_under_way, service, handle))
        done = service.ask("GET", handle)
        assert done.status_code == 200, done.text
    return {"reads alone": alone, f"reads beside 3 sources of {facts} facts": beside}


def _under_way(service: Running, handle: str, count: int) -> bool:
    return count % 20 != 0 or service.ask("GET", handle).status_code == 202


def _latencies(service: Running, who: str, more: Callable[[int], bool]) -> dict[str, Json]:
    taken: list[float] = []
    headers = {"authorization": f"Bearer {service.token('physician')}"}
    while more(len(taken)) or not taken:
        began = time.perf_counter()
        assert service.http.get(f"{service.url}/fhir/R4/Patient/{who}", headers=headers).status_code == 200
        taken.append((time.perf_counter() - began) * 1000)
    steps = statistics.quantiles(taken, n=100)
    return {"count": len(taken), "p50_ms": round(steps[49], 1), "p99_ms": round(steps[98], 1)}


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=1000)
    parser.add_argument("--standing", type=int, default=5000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        figures = asyncio.run(imports(Path(one), given.facts, given.standing)) | reads(Path(two), given.facts)
    lines = (
        f"{name:40} " + "  ".join(f"{key} {value}" for key, value in numbers.items())
        for name, numbers in figures.items()
    )
    told = json.dumps({"machine": machine(), "figures": figures}) if given.json else "\n".join(lines)
    sys.stdout.write(f"{told}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
