"""What a CCD costs: CPU for charts of 100 and of 5,000 resources, and what others wait while a large one is made.

    python -m tests.benchmarks.bench_ccda [--times 5] [--requests 3000] [--connections 8]

`written` is write_ccd alone; `exported` is `POST Patient/{id}/$export-ccda` at a service of its own process, under full
durability: CPU of it and of its processes (user and system), and the time to the answer. Then reads of patients over
kept connections, first alone, then while large exports go on, one after the other.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import psutil

from engine.interchange.clinical.ccda.document import DocumentChart, write_ccd
from engine.interchange.clinical.ccda.record import Custodian
from engine.interchange.clinical.synthetic.chart import synthetic_chart
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.transaction import Transaction
from tests.benchmarks.bench_interchange import drive, serving, show
from tests.benchmarks.processes import cpu_of_all

Json = Any
# Resources of a chart, and the milliseconds of CPU that its document may take.
AIMS = {100: 30, 5000: 1500}
P99_AIM = 50


def lay_in(path: Path, charts: dict[int, list[Json]]) -> None:
    """Put charts into a store, each under the id of its patient."""
    store = Store(path, ["riverbend"], lambda: datetime.now(UTC), INDEXERS)

    def all_of(chart: list[Json]) -> Callable[[Transaction], None]:
        def work(transaction: Transaction) -> None:
            for one in chart:
                transaction.create(one["resourceType"], one["id"], dict(one))

        return work

    for chart in charts.values():
        asyncio.run(store.write("riverbend", all_of(chart)))
    store.close()


def written(charts: dict[int, list[Json]], times: int) -> None:
    """Print what writing alone takes."""
    keeper, at, zone = Custodian("Riverbend", "https://cdis.example"), datetime.now(UTC), ZoneInfo("America/New_York")
    for size, chart in charts.items():
        costs = []
        for _ in range(times):
            started = time.process_time()
            body = write_ccd(DocumentChart(chart[0], chart[1:]), document_id="b", at=at, zone=zone, custodian=keeper)
            costs.append(time.process_time() - started)
        show(f"written  {size:>5} resources {len(body) >> 10:>6} KiB {sorted(costs)[times // 2] * 1000:>8.1f} ms CPU")


def exported(client: httpx.Client, process: psutil.Process, charts: dict[int, list[Json]], times: int) -> None:
    """Print what the service spends on an export, and how long its answer takes."""
    for size, chart in charts.items():
        path, seconds = f"/fhir/R4/Patient/{chart[0]['id']}/$export-ccda", []
        client.post(path).raise_for_status()
        before = cpu_of_all(process)
        for _ in range(times):
            started = time.perf_counter()
            client.post(path).raise_for_status()
            seconds.append(time.perf_counter() - started)
        used = (cpu_of_all(process) - before) / times * 1000
        line = f"{used:>8.1f} ms CPU (aim {AIMS[size]}), p50 {sorted(seconds)[times // 2] * 1000:.1f} ms"
        show(f"exported {size:>5} resources {line}")


async def reads(url: str, token: str, patient_id: str, given: argparse.Namespace) -> list[float]:
    """Return how long reads took."""
    head = f"GET /fhir/R4/Patient/{patient_id} HTTP/1.1\r\nhost: b\r\nauthorization: Bearer {token}\r\n\r\n"
    return await drive([url], [head.encode()] * given.requests, given.connections)


def told(name: str, seconds: list[float]) -> None:
    """Print how long reads took."""
    seconds = sorted(seconds)
    p50, p99 = (seconds[len(seconds) * part // 100] * 1000 for part in (50, 99))
    show(f"reads {name:<24} p50 {p50:.1f} ms, p99 {p99:.1f} ms (aim {P99_AIM}), slowest {seconds[-1] * 1000:.1f} ms")


async def beside(url: str, token: str, charts: dict[int, list[Json]], given: argparse.Namespace) -> list[float]:
    """Return how long reads took while large charts were exported, one after the other."""
    headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}
    path, patient_id = f"/fhir/R4/Patient/{charts[5000][0]['id']}/$export-ccda", charts[100][0]["id"]
    seconds: list[float] = []
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=60) as client:

        async def exports() -> None:
            for _ in range(given.times):
                (await client.post(path)).raise_for_status()

        under_way = asyncio.create_task(exports())
        while not under_way.done():
            seconds += await reads(url, token, patient_id, given)
        await under_way
    return seconds


def main() -> None:
    """Print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--connections", type=int, default=8)
    given = parser.parse_args()
    charts = {size: synthetic_chart(str(size), facts=size) for size in AIMS}
    written(charts, given.times)
    with tempfile.TemporaryDirectory() as folder:
        lay_in(Path(folder) / "b.db", charts)
        with serving(Path(folder)) as (url, token, process):
            headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity"}
            with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60) as client:
                exported(client, process, charts, given.times)
            told("alone", asyncio.run(reads(url, token, charts[100][0]["id"], given)))
            told("beside exports of 5,000", asyncio.run(beside(url, token, charts, given)))


if __name__ == "__main__":
    main()
